"""The offline service: replays recordings, and plays the service from scenarios.

Names are imported on first use, because pytest imports this package at every start.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wiretape_replay.loop_thread import start_replay as start_replay
    from wiretape_replay.loop_thread import start_scenario as start_scenario
    from wiretape_replay.recording_server import Replay as Replay
    from wiretape_replay.recording_server import serve_replay as serve_replay
    from wiretape_replay.server_options import ReplayOptions as ReplayOptions
    from wiretape_replay.stand_in import ServeOptions as ServeOptions
    from wiretape_replay.stand_in import serve_scenario as serve_scenario
    from wiretape_replay.verbatim.verbatim_player import ServedRequest as ServedRequest
    from wiretape_replay.verbatim.verbatim_player import UnmatchedRequest as UnmatchedRequest
    from wiretape_replay.verbatim.verifier import VerifyResult as VerifyResult
    from wiretape_replay.verbatim.verifier import verify as verify

_MODULES = {
    "loop_thread": ("start_replay", "start_scenario"),
    "recording_server": ("Replay", "serve_replay"),
    "server_options": ("ReplayOptions",),
    "stand_in": ("ServeOptions", "serve_scenario"),
    "verbatim.verbatim_player": ("ServedRequest", "UnmatchedRequest"),
    "verbatim.verifier": ("VerifyResult", "verify"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [*_MODULE_OF]  # noqa: PLE0604 - the names of the table


def __getattr__(name: str) -> object:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)
