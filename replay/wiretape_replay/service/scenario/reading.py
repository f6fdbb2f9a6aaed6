"""Scenarios: from TOML to what it says, and one sentence where it cannot be."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from wiretape.contract import EVENT_TYPES, Durability
from wiretape.safe_text import closest_match, shorten
from wiretape.toml import Table, TomlFile
from wiretape_replay.service.engine.schemas import ANY_OBJECT, Shape, UnusableSchemaError
from wiretape_replay.service.scenario.kinds import KINDS, Around, read_steps
from wiretape_replay.service.scenario.steps import (
    DEADLINE_NS,
    EPHEMERAL_TYPES,
    PACE_NS,
    REFUSALS,
    SECOND_NS,
    Ask,
    Refuse,
    Repeat,
    RunScript,
    Scenario,
    Step,
    Text,
    Together,
    Tool,
    ToolSchemas,
)
from wiretape_replay.service.scenario.values import deadline, duration, json_object

_HERE = Path("scenario")
"""What messages call a scenario that is in no file."""
_OF_ALL = ("title", "deadline", "ephemeral")
_MOST_EVENTS = 100_000
_LONGEST_NS = 100_000_000 * SECOND_NS
_FREE = sorted(name for name, row in EVENT_TYPES.items() if row.durability is Durability.NOT_SHOWN)
"""The types that may be stored or not."""


def read_scenario(path: Path) -> Scenario:
    """The scenario in a file.  Raises InputError, naming file, line and key."""
    return scenario_in(TomlFile.load(path).table())


def scenario_text(text: str) -> Scenario:
    """The scenario that a file of this text would hold.  Raises InputError."""
    return scenario_in(TomlFile.of(text, _HERE).table())


def scenario_in(top: Table) -> Scenario:
    """The scenario that a table says, which is all of a file.  Raises InputError."""
    _only(top, [*_OF_ALL, "pace", "tool", "run"], "key")
    ephemeral = EPHEMERAL_TYPES | _ephemeral(top)
    tools = dict(_tool(table) for table in top.tables("tool"))
    _refuse_twins(top.tables("tool"))
    inputs = {name: Shape(tool.input) for name, tool in tools.items()}
    around = Around(duration(top, "pace", PACE_NS), deadline(top, DEADLINE_NS), inputs)
    scripts = tuple(_run(table, around) for table in top.tables("run"))
    if not scripts:
        raise top.wrong(None, "it has no runs; say what one does under [[run]]")
    _refuse_slips(top.tables("tool"), {name for script in scripts for name in _asked(script.steps)})
    if "title" not in top:
        raise top.wrong(None, 'title is missing; write title = "…" above everything else')
    return Scenario(top.text("title"), scripts, tools, ephemeral)


def _only(table: Table, known: Sequence[str], kind: str) -> None:
    """Refuse every other key; say of steps where they stand."""
    for key in table:
        if key == "steps" and key not in known:
            raise table.wrong(key, "steps stand in a run: write steps = […] under [[run]], or tables [[run.steps]]")
        if key in _OF_ALL and key not in known:
            raise table.wrong(key, "it is said of the whole scenario: write it above the first [[run]] and [[tool]]")
        if key in KINDS and key not in known:
            raise table.wrong(key, f"it is a step, and steps stand in a list: steps = [{{ {key} = … }}] under [[run]]")
    table.only(known, kind)


def _ephemeral(top: Table) -> frozenset[str]:
    """The types that are not stored, beside those that never are."""
    names = top.texts("ephemeral", "event types", ())
    for place, name in enumerate(names):
        if name not in _FREE:
            why = f"{name!r} is no event type that may be left unstored; there are {', '.join(_FREE)}"
            raise top.file.wrong(("ephemeral", place), why)
    return frozenset(names)


def _tool(table: Table) -> tuple[str, ToolSchemas]:
    _only(table, ["name", "input", "output"], "key of a tool")
    read = ToolSchemas(table.text("name"), _schema(table, "input"), _schema(table, "output"))
    return read.name, read


def _schema(table: Table, key: str) -> Mapping[str, Any]:
    schema = json_object(table, key) if key in table else ANY_OBJECT
    try:
        Shape(schema)
    except UnusableSchemaError as error:
        raise table.file.wrong((*table.place, key, *error.place), f"it is no usable JSON Schema: {error}") from None
    return schema


def _refuse_twins(tables: list[Table]) -> None:
    seen: set[str] = set()
    for table in tables:
        if (name := table.text("name")) in seen:
            raise table.wrong("name", "it is the name of two tools; each needs its own")
        seen.add(name)


def _refuse_slips(tables: list[Table], asked: set[str]) -> None:
    """Refuse a tool that no step asks for, when one asks for another of nearly that name."""
    unknown = asked - {table.text("name") for table in tables}
    for table in tables:
        name = table.text("name")
        if name not in asked and (similar := closest_match(name, sorted(unknown))):
            raise table.wrong("name", f"no step asks for it, but one does for {shorten(similar)}; write both alike")


def _asked(steps: Sequence[Step]) -> Iterator[str]:
    """The application tools that steps call."""
    for step in steps:
        if isinstance(step, Ask):
            yield step.name
        elif isinstance(step, Repeat | Together):
            yield from _asked(step.steps)


def _run(table: Table, around: Around) -> RunScript:
    _only(table, ["steps", "after", "pace", "refuse"], "key of a run")
    ns = duration(table, "pace", around.pace_ns)
    steps = read_steps(table, replace(around, pace_ns=ns))
    _check_size(steps, table)
    return RunScript(steps, duration(table, "after", ns), ns, _refuse(table))


def _refuse(table: Table) -> Refuse | None:
    if "refuse" not in table:
        return None
    if isinstance(table.values["refuse"], str):
        return Refuse(table.one_of("refuse", REFUSALS))
    if not isinstance(table.values["refuse"], dict):
        raise table.wrong("refuse", f'it has to be a code, or a table as in {{ code = "{REFUSALS[0]}", times = 2 }}')
    told = table.table("refuse")
    told.only(["code", "message", "times"], "key of a refusal")
    return Refuse(told.one_of("code", REFUSALS), told.text("message") if "message" in told else None, _times(told))


def _times(told: Table) -> int | None:
    """How often it is refused; None: always."""
    times = told.values.get("times", 1)
    if times is False:
        return None
    if not isinstance(times, int) or times is True or times < 1:
        raise told.wrong("times", "it has to be a whole number, 1 or more, or false for always")
    return times


def _check_size(steps: Sequence[Step], table: Table) -> None:
    """Refuse a run that nobody could wait for, or keep."""
    events, length_ns = (sum(sizes) for sizes in zip(*_sizes(steps), strict=True))
    if events > _MOST_EVENTS:
        raise table.wrong("steps", f"they make {events:,} events; a run can have {_MOST_EVENTS:,} at most")
    if length_ns > _LONGEST_NS:
        raise table.wrong(
            "steps", f"they take {length_ns // SECOND_NS:,} s; a run can take {_LONGEST_NS // SECOND_NS:,}"
        )


def _sizes(steps: Sequence[Step]) -> Iterator[tuple[int, int]]:
    """Of each step, how many events it makes at most and how long it takes."""
    for step in steps:
        if isinstance(step, Repeat | Together):
            inner = list(_sizes(step.steps))
            times = step.times if isinstance(step, Repeat) else 1
            yield times * (1 + sum(events for events, _ in inner)), times * sum(ns for _, ns in inner) + step.after_ns
        elif isinstance(step, Text):
            count = len(step.pieces) + 2
            yield count, step.after_ns + count * step.pace_ns
        else:
            takes_ns = step.takes_ns if isinstance(step, Tool) else 0
            yield 3, step.after_ns + 3 * step.pace_ns + takes_ns
