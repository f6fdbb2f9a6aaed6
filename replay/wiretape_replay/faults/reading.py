"""Fault scripts: from TOML to what it says, and one sentence where it cannot be."""

from collections.abc import Sequence
from pathlib import Path

from wiretape.errors import InputError
from wiretape.safe_text import printable, shorten
from wiretape.toml import Table, TomlFile
from wiretape_replay.faults.addressing import REQUEST_KEYS, address_in, events_in
from wiretape_replay.faults.deed import Do
from wiretape_replay.faults.kinds import KINDS
from wiretape_replay.faults.script import Events, Fault, Moment, Script
from wiretape_replay.faults.values import one_line, share

_ALWAYS = ("name", "do", *REQUEST_KEYS, "skip", "times", "probability")


def read_script(path: Path) -> Script:
    """The faults that the file says.  Raises InputError, naming file, line and key."""
    return script_in(TomlFile.load(path).table())


def script_in(top: Table) -> Script:
    """The faults that a table says, which is all of a file.  Raises InputError."""
    top.only(["seed", "fault"], "key")
    seed = top.integer("seed", 0)
    tables = top.tables("fault")
    faults = tuple(_fault(number, table) for number, table in enumerate(tables, 1))
    _refuse_twins(faults, tables)
    return Script(faults, seed)


def _fault(number: int, table: Table) -> Fault:
    do = Do(table.one_of("do", list(Do)))
    kind = KINDS[do]
    _refuse_moments(table, do)
    table.only([*_ALWAYS, *kind.keys, *kind.moments], f'key where do = "{do}"')
    events = _events(table)
    if events is None and not kind.answers:
        moments = " or ".join(kind.moments)
        raise table.wrong("do", f"{do} is done to events; say to which, as in {moments} = {{ sequence = 12 }}")
    return Fault(
        name=one_line(table, "name") or f"fault-{number}",
        do=do,
        deed=kind.read(table),
        address=address_in(table, do, events),
        events=events,
        skip=table.integer("skip", 0),
        times=table.integer("times", least=1) if "times" in table else None,
        probability=share(table, "probability"),
    )


def _refuse_moments(table: Table, do: Do) -> None:
    """Refuse a place in relation to an event where nothing of the kind can be done."""
    moments = KINDS[do].moments
    for moment in Moment:
        if moment in table and moment not in moments:
            instead = f"say {' or '.join(moments)} instead" if moments else "it is done before there are events"
            raise table.wrong(moment, f"{do} cannot be done there; {instead}")


def _events(table: Table) -> Events | None:
    """Which events are meant, if any."""
    moments = [moment for moment in Moment if moment in table]
    if not moments:
        return None
    if len(moments) > 1:
        raise table.wrong(moments[1], f"{moments[0]} says where already, and there can be one of them only")
    return events_in(table.table(moments[0], "sequence = 12"), moments[0])


def _refuse_twins(faults: Sequence[Fault], tables: Sequence[Table]) -> None:
    seen: set[str] = set()
    for fault, table in zip(faults, tables, strict=True):
        if fault.name in seen:
            raise table.wrong("name", f"{printable(fault.name)} is the name of two faults; each needs its own")
        seen.add(fault.name)


def for_mode(script: Script, mode: str) -> Script:
    """The script, if what it says can be done in a mode.  Raises InputError."""
    if mode == "tape" and script.on_events:
        name = shorten(script.on_events[0].name, 60)
        why = "is done to events of streams, and tape mode sends recorded answers as they are"
        raise InputError(f"The fault {name} {why}: choose --mode session.")
    return script
