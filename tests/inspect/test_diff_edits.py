"""`wiretape diff` reports one edit anywhere in a recording, as text and as JSON, and nothing else."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from click.testing import CliRunner, Result
from hypothesis import given, settings
from hypothesis import strategies as st

from wiretape.cli import wiretape
from wiretape.observations import BytesLost, Ending, Side

JSON = (("content-type", "application/json"),)


@dataclass(frozen=True)
class Event:
    """A durable event whose id and sequence come from its number."""

    number: int
    kind: str
    said: object
    n: int = 1
    wait: int = 1


@dataclass(frozen=True)
class Exchange:
    """A stream of events and texts (deltas), or a plain response if there are none."""

    target: str
    items: tuple[Event | str, ...] | None
    cursor: str = ""
    n: int = 1
    status: int = 200
    ending: Ending = Ending.COMPLETE
    lost: int = 0

    @property
    def events(self) -> list[int]:
        """Where in `items` the events stand."""
        return [at for at, item in enumerate(self.items or ()) if isinstance(item, Event)]

    @property
    def text(self) -> str:
        """What the deltas join to."""
        return "".join(item for item in self.items or () if isinstance(item, str))


@dataclass(frozen=True)
class Edit:
    """An edit of a recording, and how it is reported."""

    after: list[Exchange]
    row: dict
    lines: list[str] = field(default_factory=list)
    """The lines below the heading of the exchange."""


NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
SAID = st.one_of(st.none(), NUMBERS, st.text(max_size=4), st.lists(st.booleans(), max_size=2))
ITEMS = st.lists(
    st.text('ab \u00e9"', min_size=1, max_size=5)
    | st.builds(Event, st.just(0), st.sampled_from(["run.started", "tool.started", "tool.completed"]), SAID),
    min_size=1,
    max_size=8,
)


@st.composite
def recorded(draw: st.DrawFn) -> list[Exchange]:
    """Requests and streams of a session; each stream continues where the previous one ended."""
    found: list[Exchange] = []
    number, cursor = 0, ""
    for index, items in enumerate(draw(st.lists(st.none() | ITEMS, min_size=1, max_size=4)), 1):
        if items is None:
            found.append(Exchange(f"/v1/x?n={index}", None))
            continue
        numbered: list[Event | str] = []
        for item in items:
            number += 1
            numbered.append(item if isinstance(item, str) else replace(item, number=number))
        found.append(Exchange("/v1/sessions/s1/events/stream?event_deltas=true", tuple(numbered), cursor))
        cursor = f"e{number}-{index}"
    return found


def _dropped(before: list[Exchange], at: int, place: int) -> Edit:
    event = before[at].items[place]
    return Edit(
        _with(before, at, before[at].items[:place] + before[at].items[place + 1 :]),
        _row("missing", "event", (at, place), None, event),
        [f"missing {at + 1}:{place + 1} - {_named(event)}"],
    )


def _inserted(before: list[Exchange], at: int, place: int) -> Edit:
    event = Event(99, "session.status_idle", None)
    return Edit(
        _with(before, at, (*before[at].items[:place], event, *before[at].items[place:])),
        _row("added", "event", None, (at, place), event),
        [f"added - {at + 1}:{place + 1} {_named(event)}"],
    )


def _changed(before: list[Exchange], at: int, place: int) -> Edit:
    event = before[at].items[place]
    return Edit(
        _with(before, at, _replaced(before[at].items, place, replace(event, n=2))),
        _row("changed", "event", (at, place), (at, place), event, [{"path": "$.content.n", "a": 1, "b": 2}]),
        [f"changed {at + 1}:{place + 1} {at + 1}:{place + 1} {_named(event)}", "$.content.n: 1 → 2"],
    )


def _delayed(before: list[Exchange], at: int, place: int) -> Edit:
    event = before[at].items[place]
    return Edit(
        _with(before, at, _replaced(before[at].items, place, replace(event, wait=501))),
        _row("time", "event", (at, place), (at, place), event, later=500_000_000),
        [f"time {at + 1}:{place + 1} {at + 1}:{place + 1} {_named(event)} 500 ms later"],
    )


def _swapped(before: list[Exchange], at: int, place: int) -> Edit:
    """Swap it with the next one; the first of the two is reported."""
    event, items = before[at].items[place], before[at].items
    behind = next((other for other in before[at].events if other > place), None)
    if behind is None:
        return _dropped(before, at, place)
    return Edit(
        _with(before, at, _replaced(_replaced(items, place, items[behind]), behind, event)),
        _row("moved", "event", (at, place), (at, behind), event),
        [f"moved {at + 1}:{place + 1} {at + 1}:{behind + 1} {_named(event)}"],
    )


def _respoken(before: list[Exchange], at: int, place: int) -> Edit:
    said = before[at].items[place]
    after = _with(before, at, _replaced(before[at].items, place, said[:-1] + "X"))
    texts = (before[at].text, after[at].text)
    same = len(replace(before[at], items=before[at].items[: place + 1]).text) - 1
    field_ = {"path": f"text[{same}:]", "a": texts[0][same:], "b": texts[1][same:]}
    row = _row("changed", "text", (at, place), (at, place), None, [field_])
    lines = [f"changed {at + 1}:{place + 1} {at + 1}:{place + 1} the text of message.delta run r1"]
    return Edit(after, row | {"type": "message.delta", "run_id": "r1"}, lines)


def _lost(before: list[Exchange], at: int) -> Edit:
    return _of_exchange(before, at, replace(before[at], lost=7), "bytes not recorded", 0, 7)


def _ended(before: list[Exchange], at: int) -> Edit:
    after = replace(before[at], ending=Ending.SERVICE_RESET)
    return _of_exchange(before, at, after, "ending", "complete", "service-reset")


def _refused(before: list[Exchange], at: int) -> Edit:
    return _of_exchange(before, at, replace(before[at], status=503), "response status", 200, 503)


def _asked(before: list[Exchange], at: int) -> Edit:
    return _of_exchange(before, at, replace(before[at], n=2), "request body $.n", 1, 2)


def _of_exchange(before: list[Exchange], at: int, after: Exchange, path: str, here: object, there: object) -> Edit:
    row = _row("changed", "exchange", (at, None), (at, None), None, [{"path": path, "a": here, "b": there}])
    lines = [f"changed #{at + 1} #{at + 1} the exchange", f"{path}: {json.dumps(here)} → {json.dumps(there)}"]
    return Edit([*before[:at], after, *before[at + 1 :]], row, lines)


def _alone(before: list[Exchange], at: int) -> Edit:
    return Edit([*before[:at], *before[at + 1 :]], _row("missing", "exchange", (at, None), None))


OF_EVENTS = (_dropped, _changed, _delayed, _swapped)
OF_TEXTS = (_respoken,)
OF_EXCHANGES = (_alone, _lost, _ended, _refused, _asked)


def _with(before: list[Exchange], at: int, items: tuple[Event | str, ...]) -> list[Exchange]:
    return [*before[:at], replace(before[at], items=items), *before[at + 1 :]]


def _replaced(items: tuple[Event | str, ...], place: int, item: Event | str) -> tuple[Event | str, ...]:
    return (*items[:place], item, *items[place + 1 :])


def _row(
    kind: str,
    what: str,
    here: tuple[int, int | None] | None,
    there: tuple[int, int | None] | None,
    event: Event | None = None,
    fields: list[dict] | None = None,
    later: int | None = None,
) -> dict:
    """Its JSON without times."""
    places = [
        place and {"exchange": place[0] + 1, "event": None if place[1] is None else place[1] + 1}
        for place in (here, there)
    ]
    named = {"type": event.kind, "id": f"e{event.number}", "sequence": event.number} if event else {}
    return {
        "row": "difference",
        "kind": kind,
        "what": what,
        "a": places[0],
        "b": places[1],
        "type": None,
        "id": None,
        "sequence": None,
        "run_id": None,
        "fields": fields or [],
        "later_ns": later,
    } | named


def _named(event: Event) -> str:
    return f"{event.kind} e{event.number} seq {event.number}"


@st.composite
def edits(draw: st.DrawFn) -> tuple[list[Exchange], Edit]:
    """A recording and one edit of it."""
    before = draw(recorded())
    at = draw(st.integers(0, len(before) - 1))
    items = before[at].items
    if items is None or draw(st.integers(0, 3)) == 0:
        edit = draw(st.sampled_from(OF_EXCHANGES if len(before) > 1 else OF_EXCHANGES[1:]))
        return before, edit(before, at)
    place = draw(st.integers(0, len(items) - 1))
    edit = draw(st.sampled_from((*(OF_TEXTS if isinstance(items[place], str) else OF_EVENTS), _inserted)))
    return before, edit(before, at, place)


def _played(new_tape: Callable, message: Callable, exchanges: list[Exchange]) -> str:
    tape = new_tape()
    for one in exchanges:
        chunks = [_chunk(item, message) for item in one.items or ()]
        chunks += [BytesLost(1, 0, Side.RESPONSE, 0, one.lost, "disk full")] if one.lost else []
        tape.exchange(
            one.target,
            chunks if one.items is not None else [(1, b'{"id": "x"}'), *chunks],
            method="POST" if one.items is None else "GET",
            request_headers=(("Last-Event-ID", one.cursor),) if one.cursor else (),
            request_body=b'{"n": %d}' % one.n,
            status=one.status,
            ending=one.ending,
            **({"headers": JSON} if one.items is None else {}),
        )
    return str(tape.close())


def _chunk(item: Event | str, message: Callable) -> tuple[int, bytes]:
    if isinstance(item, str):
        return 1, message("message.delta", run_id="r1", delta={"text": item})
    said = {"sequence": item.number, "run_id": "r1", "content": {"said": item.said, "n": item.n}}
    return item.wait, message(item.kind, id=f"e{item.number}", **said)


def _diff(files: list[str], *options: str) -> Result:
    return CliRunner().invoke(wiretape, ["diff", *files, "--timing", "50ms", "--no-pager", *options])


@given(edits())
@settings(max_examples=20)
def test_one_edit_is_the_only_reported_difference(new_tape, message, drawn):
    before, edit = drawn
    files = [_played(new_tape, message, exchanges) for exchanges in (before, edit.after)]

    as_json = _diff(files, "--json")
    _, *rows, summary = map(json.loads, as_json.output.splitlines())
    assert [_without_times(row) for row in rows] == [edit.row]
    assert {kind for kind, count in summary["differences"].items() if count} == {edit.row["kind"]}
    assert (summary["equal"], as_json.exit_code) == (False, 1)

    text = _diff(files)
    _, _, head, *lines, last = [" ".join(line.split()) for line in text.output.splitlines()]
    number = (edit.row["a"] or edit.row["b"])["exchange"]
    request = f"{'POST' if before[number - 1].items is None else 'GET'} {before[number - 1].target}"
    alone = edit.row["what"] == "exchange" and edit.row["b"] is None
    assert head == (f"only in A: #{number} {request}" if alone else f"A#{number} B#{number} {request}")
    assert lines[: len(edit.lines)] == edit.lines
    assert len(lines) == len(edit.lines) + (edit.row["what"] == "text")
    assert last.startswith(f"1 difference: 1 {edit.row['kind']} ")
    assert text.exit_code == 1


def _without_times(row: dict) -> dict:
    for place in (row["a"], row["b"]):
        if place is not None:
            del place["time_ns"]
    del row["request"]
    return row


@given(recorded())
@settings(max_examples=15)
def test_two_identical_recordings_are_equal(new_tape, message, exchanges):
    files = [_played(new_tape, message, exchanges) for _ in "ab"]

    result = _diff(files)
    assert (result.exit_code, len(result.output.splitlines())) == (0, 3)
    assert result.output.splitlines()[-1].startswith("No difference")
