"""Two event streams compared: joined by their durable events, or by what they say where ids do not count."""

from collections.abc import Callable

from wiretape.json_diff import Difference
from wiretape_inspect.comparing.aligning import Key, joined
from wiretape_inspect.comparing.choices import Choices
from wiretape_inspect.comparing.model import Compared, Found, Kind, Place
from wiretape_inspect.comparing.sameness import Sameness
from wiretape_inspect.comparing.spool import Spool
from wiretape_inspect.comparing.trail import Trail
from wiretape_inspect.comparing.units import StreamUnits, Unit

_WAITING = 1000
"""So many events may wait for their partner before what they say is put aside."""


def compare_events(first: StreamUnits, second: StreamUnits, sameness: Sameness, into: Compared) -> None:
    """Compare all messages but deltas.  Memory grows with what is different, and by 32 bytes for each pair."""
    choices, left, trail = sameness.choices, (list[Unit](), list[Unit]()), Trail()
    places = _Places(first.exchange.number, second.exchange.number)
    with Spool() as spool:
        keys = _keys(choices)
        for here, there in joined(first.units(), second.units(), keys, _event, left=left, wait=_putting_aside(spool)):
            trail.add(here, there)
            here.restore(spool, choices.ignored)
            there.restore(spool, choices.ignored)
            if fields := _fields(sameness, here, there):
                into.add(places.found("changed", here, there, fields))
            here.release()
            there.release()
    for unit in left[0]:
        into.add(places.found("missing", unit, None))
    for unit in left[1]:
        into.add(places.found("added", None, unit))
    _order_and_time(first, second, trail, choices, into)
    into.events += first.messages + second.messages


def _keys(choices: Choices) -> list[Key[Unit]]:
    """What names an event, the strongest first."""
    keys: list[Key[Unit]] = [
        lambda unit: (unit.sequence, unit.token),
        lambda unit: unit.token,
        lambda unit: (unit.sequence, unit.type),
        lambda unit: unit.sequence,
    ]
    return keys if choices.ids else [lambda unit: unit.id or None, *keys]


def _event(unit: Unit) -> int:
    return unit.event


def _putting_aside(spool: Spool) -> Callable[[Unit, int], None]:
    def put_aside(unit: Unit, waiting: int) -> None:
        if waiting >= _WAITING:
            unit.put_aside(spool)

    return put_aside


def _fields(sameness: Sameness, first: Unit, second: Unit) -> tuple[Difference, ...]:
    documents = [] if _surely_same(sameness, first, second) else sameness.documents(first.document, second.document)
    lines = [] if sameness.ids(first.id, second.id) else [Difference("SSE id", first.id, second.id)]
    if first.lines != second.lines:
        lines += [
            Difference(f"SSE {name}", here, there)
            for name in ("event", "retry")
            if (here := _values(first, name)) != (there := _values(second, name))
        ]
    return (*lines, *documents)


def _surely_same(sameness: Sameness, first: Unit, second: Unit) -> bool:
    if not sameness.choices.ids and first.data == second.data:
        return True
    return first.sequence == second.sequence and first.mask.surely_same(second.mask, sameness)


def _values(unit: Unit, name: str) -> str:
    return ", ".join(value.decode("utf-8", "replace") for key, value in unit.lines if key == name.encode())


def _order_and_time(first: StreamUnits, second: StreamUnits, trail: Trail, choices: Choices, into: Compared) -> None:
    places = _Places(first.exchange.number, second.exchange.number)

    def tell(kind: Kind, here: int, there: int, later_ns: int | None = None) -> None:
        units = (first.unit(here), second.unit(there)) if into.has_room(kind) else (None, None)
        into.add(places.found(kind, *units, later_ns=later_ns))

    moved = trail.moved()
    for here, there in moved:
        tell("moved", here, there)
    if choices.tolerance_ns is not None:
        began = (_began(first), _began(second))
        for here, there, later in trail.shifted({here for here, _ in moved}, began, choices.tolerance_ns):
            tell("time", here, there, later)


def _began(stream: StreamUnits) -> int:
    response = stream.exchange.response
    return response.time_ns if response else stream.exchange.request.time_ns


class _Places:
    """Makes what is found of two exchanges."""

    def __init__(self, first: int, second: int) -> None:
        self._numbers = (first, second)

    def found(
        self,
        kind: Kind,
        first: Unit | None,
        second: Unit | None,
        fields: tuple[Difference, ...] = (),
        later_ns: int | None = None,
    ) -> Found:
        here, there = (self._place(*pair) for pair in zip(self._numbers, (first, second), strict=True))
        unit = first or second
        return Found(
            kind,
            "event",
            (here, there),
            type=unit.type if unit else "",
            id=unit.id if unit else None,
            sequence=unit.sequence if unit else None,
            fields=fields,
            later_ns=later_ns,
        )

    @staticmethod
    def _place(number: int, unit: Unit | None) -> Place | None:
        return None if unit is None else Place(number, unit.event, unit.time_ns)
