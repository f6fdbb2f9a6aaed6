"""What each kind of fault needs to be told, and how that is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from wiretape.contract import ERROR_CODES, LIMITS, RATE_LIMITED, SESSION_BUSY, code_in_other_case
from wiretape.contract.schemas import has_own_details
from wiretape.toml import Table
from wiretape_replay.answers.reasons import Reason
from wiretape_replay.faults.deed import (
    Corrupt,
    Cut,
    Damage,
    Deed,
    Do,
    Duplicate,
    ExpireCursor,
    Oversize,
    Pause,
    Refuse,
    Reorder,
    Resync,
    Seam,
    Split,
)
from wiretape_replay.faults.script import Moment
from wiretape_replay.faults.values import counts, one_line, optional_text, seconds, texts

LARGEST_DATA = 256 * 1024 * 1024
_MOST_COPIES = 10_000
_ANYWHERE = tuple(Moment)
_UNPROCESSABLE = 422
_LIMIT_KEYS = ("retry-after", "limit")
_BUSY_KEYS = ("active-run", "active-run-status")


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the things that faults do."""

    read: Callable[[Table], Deed]
    keys: tuple[str, ...] = ()
    """What it takes besides its address."""
    moments: tuple[Moment, ...] = ()
    """Where it can stand in relation to an event."""
    answers: bool = False
    """Whether it can be done to the answer to a request, without an event."""


def _drop(table: Table) -> Deed:
    return Cut(offset=_offset(table))


def _reset(table: Table) -> Deed:
    return Cut(reset=True, offset=_offset(table))


def _stall(table: Table) -> Deed:
    return Pause(seconds(table, "seconds"), _offset(table))


def _delay(table: Table) -> Deed:
    if "seconds" not in table:
        raise table.wrong(None, "seconds is missing: how long a delay lasts (a stall without it lasts for ever)")
    return _stall(table)


def _offset(table: Table) -> int | None:
    if "offset" in table and Moment.AT not in table:
        raise table.wrong("offset", "it counts bytes of an event, so it needs at = { … }")
    return _count(table, "offset")


def _duplicate(table: Table) -> Deed:
    copies = table.integer("copies", 1, least=1)
    if copies > _MOST_COPIES:
        raise table.wrong("copies", f"there can be {_MOST_COPIES:,} of them at most")
    return Duplicate(copies)


def _reorder(table: Table) -> Deed:
    return Reorder(table.integer("by", 1, least=1))


def _corrupt(table: Table) -> Deed:
    how = Damage(table.one_of("how", list(Damage), Damage.FLIP))
    for key, belongs in (("count", Damage.FLIP), ("find", Damage.REPLACE), ("with", Damage.REPLACE)):
        if key in table and how is not belongs:
            raise table.wrong(key, f'it belongs to how = "{belongs}"')
    if how is not Damage.REPLACE:
        return Corrupt(how, table.integer("count", 1, least=1))
    # Nothing is a good replacement too.
    put = table.text("with") if table.values.get("with") else ""
    return Corrupt(how, find=table.text("find").encode(), put=put.encode())


def _split(table: Table) -> Deed:
    if ("where" in table) == ("offsets" in table):
        raise table.wrong(None, f"a split needs either where (one of {', '.join(Seam)}) or offsets (like [10, 20])")
    where = Seam(table.one_of("where", list(Seam))) if "where" in table else counts(table, "offsets")
    return Split(where, seconds(table, "pause") or 0)


def _oversize(table: Table) -> Deed:
    size = table.integer("bytes", least=1)
    if size > LARGEST_DATA:
        raise table.wrong("bytes", f"there can be {LARGEST_DATA:,} of them at most")
    return Oversize(size)


def _resync(table: Table) -> Deed:
    if "sequence" in table and "id" not in table:
        raise table.wrong("sequence", "an event without an id is ephemeral and has none")
    return Resync(one_line(table, "id"), _count(table, "sequence", 0))


def _expire_cursor(table: Table) -> Deed:
    return ExpireCursor(texts(table, "cursor"))


def _error(table: Table) -> Deed:
    meant = code_in_other_case(str(table.values.get("code", "")))
    if meant is not None:
        raise table.wrong("code", f"its case is exact: {meant.code}")
    code = table.one_of("code", list(ERROR_CODES))
    for keys, belongs in ((_LIMIT_KEYS, RATE_LIMITED), (_BUSY_KEYS, SESSION_BUSY)):
        for key in keys:
            if key in table and code != belongs:
                raise table.wrong(key, f"it belongs to {belongs}, not to {code}")
    return Refuse(
        code=code,
        message=optional_text(table, "message"),
        retry_after=_count(table, "retry-after", 0),
        limit=LIMITS[table.one_of("limit", list(LIMITS))] if "limit" in table else None,
        active_run=optional_text(table, "active-run"),
        active_run_status=optional_text(table, "active-run-status"),
        reasons=_reasons(table, code),
    )


def _reasons(table: Table, code: str) -> tuple[Reason, ...]:
    """What is wrong with the request; the errors of validation always say something."""
    if "reasons" not in table:
        return (Reason("$", "refused by a fault script"),) if ERROR_CODES[code].status == _UNPROCESSABLE else ()
    if has_own_details(code):
        raise table.wrong("reasons", f"{code} has details of its own, or none")
    rows = table.tables("reasons")
    for row in rows:
        row.only(["path", "reason"], "key of a reason")
    return tuple(Reason(row.text("path"), row.text("reason")) for row in rows)


def _count(table: Table, key: str, least: int = 1) -> int | None:
    return table.integer(key, least=least) if key in table else None


KINDS: Mapping[Do, Kind] = {
    Do.DROP: Kind(_drop, ("offset",), _ANYWHERE, answers=True),
    Do.RESET: Kind(_reset, ("offset",), _ANYWHERE, answers=True),
    Do.STALL: Kind(_stall, ("seconds", "offset"), _ANYWHERE, answers=True),
    Do.DELAY: Kind(_delay, ("seconds", "offset"), _ANYWHERE, answers=True),
    Do.DUPLICATE: Kind(_duplicate, ("copies",), (Moment.AT,)),
    Do.REORDER: Kind(_reorder, ("by",), (Moment.AT,)),
    Do.CORRUPT: Kind(_corrupt, ("how", "count", "find", "with"), (Moment.AT,)),
    Do.SPLIT: Kind(_split, ("where", "offsets", "pause"), (Moment.AT,)),
    Do.OVERSIZE: Kind(_oversize, ("bytes",), (Moment.AT,)),
    Do.RESYNC: Kind(_resync, ("id", "sequence"), (Moment.BEFORE, Moment.AFTER)),
    Do.EXPIRE_CURSOR: Kind(_expire_cursor, ("cursor",), answers=True),
    Do.ERROR: Kind(_error, ("code", "message", *_LIMIT_KEYS, *_BUSY_KEYS, "reasons"), answers=True),
}
"""Every kind by its word."""
