"""The operations of a replay of a recording."""

from wiretape_replay.control.control_state import Miss, Requests
from wiretape_replay.control.playhead_control import PlayheadControl
from wiretape_replay.session.player import SessionPlayer
from wiretape_replay.session.playheads import Playheads
from wiretape_replay.verbatim.verbatim_player import VerbatimPlayer


def operations_of(drives: Playheads, tape: VerbatimPlayer, player: SessionPlayer | None) -> PlayheadControl:
    """Those of the players; None in verbatim mode, where there are no playheads."""
    return PlayheadControl(
        drives,
        {} if player is None else {name: session.log for name, session in player.sessions.items()},
        connected=() if player is None else player.connected,
        requests=lambda: _requests(tape, player),
        on_reset=[tape.queues.reset],
    )


def _requests(tape: VerbatimPlayer, player: SessionPlayer | None) -> Requests:
    """What was asked for; of targets only the path, as the query may hold secrets."""
    streamed = [] if player is None else player.streamed
    refused = sum(stream.refusal is not None for stream in streamed)
    misses = [Miss(miss.method, miss.target.partition("?")[0], miss.message) for miss in tape.missed]
    return Requests(len(streamed) - refused, refused, len(tape.served), misses)
