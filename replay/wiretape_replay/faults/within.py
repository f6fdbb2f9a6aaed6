"""Faults that are done within an event.  Pure: no I/O, no clock."""

from random import Random

from wiretape_replay.faults.actions import Action, Drop, Reset, Wait, Write
from wiretape_replay.faults.changes import corrupted, data_size, oversized, pieces
from wiretape_replay.faults.deed import Corrupt, Cut, Duplicate, Oversize, Pause, Split
from wiretape_replay.faults.script import Fault


def can_be_done(fault: Fault, actions: list[Action]) -> bool:
    """Whether a fault can be done to an event; if not, it does not hit it."""
    if isinstance(fault.deed, Oversize) and isinstance(actions[0], Write):
        # Known without making what may be very long.
        size = data_size(actions[0].data)
        return len(actions) == 1 and size is not None and size < fault.deed.size
    return done_to(fault, actions, Random(0)) is not None  # noqa: S311 - nothing secret hangs on it


def done_to(fault: Fault, actions: list[Action], chance: Random) -> list[Action] | None:
    """An event's actions with a fault done to it; None where that cannot be, so that the fault does not hit it."""
    deed = fault.deed
    if isinstance(deed, Duplicate):
        return actions * (deed.copies + 1)
    if isinstance(deed, Cut):
        return _interrupted(actions, deed.offset, Reset() if deed.reset else Drop())
    if isinstance(deed, Pause):
        return _interrupted(actions, deed.offset, Wait(deed.time_ns))
    if len(actions) != 1 or not isinstance(actions[0], Write):
        return None
    frame = actions[0].data
    if isinstance(deed, Split):
        return _in_pieces(pieces(frame, deed), deed.pause_ns)
    changed = corrupted(frame, deed, chance) if isinstance(deed, Corrupt) else None
    changed = oversized(frame, deed) if isinstance(deed, Oversize) else changed
    return None if changed is None else [Write(changed)]


def _in_pieces(parts: list[bytes] | None, pause_ns: int) -> list[Action] | None:
    if parts is None:
        return None
    actions: list[Action] = []
    for part in parts:
        actions += [Wait(pause_ns), Write(part)] if pause_ns and actions else [Write(part)]
    return actions


def _interrupted(actions: list[Action], offset: int | None, by: Action) -> list[Action] | None:
    """Something done after `offset` bytes of what is written, half of it by default; None where it is not so long."""
    size = sum(len(action.data) for action in actions if isinstance(action, Write))
    left = size // 2 if offset is None else offset
    if not 0 < left < size:
        return None
    done: list[Action] = []
    for at, action in enumerate(actions):
        if isinstance(action, Write) and left < len(action.data):
            return [*done, *_written(action.data[:left]), by, *_written(action.data[left:]), *actions[at + 1 :]]
        if isinstance(action, Write):
            left -= len(action.data)
        done.append(action)
    return None


def _written(data: bytes) -> list[Action]:
    return [Write(data)] if data else []
