"""The offline service: replays recordings, and plays the service from scenarios.

Names are imported on first use, because pytest imports this package at every start.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wiretape_replay.loop_thread import start_replay, start_scenario
    from wiretape_replay.recording_server import Replay, serve_replay
    from wiretape_replay.server_options import ReplayOptions, ServeOptions
    from wiretape_replay.service.scenario_server import serve_scenario
    from wiretape_replay.verbatim.verbatim_player import ServedRequest, UnmatchedRequest
    from wiretape_replay.verbatim.verifier import VerifyResult, verify

__all__ = [
    "Replay",
    "ReplayOptions",
    "ServeOptions",
    "ServedRequest",
    "UnmatchedRequest",
    "VerifyResult",
    "serve_replay",
    "serve_scenario",
    "start_replay",
    "start_scenario",
    "verify",
]

_HOMES = {
    "UnmatchedRequest": "verbatim.verbatim_player",
    "Replay": "recording_server",
    "ReplayOptions": "server_options",
    "ServeOptions": "server_options",
    "ServedRequest": "verbatim.verbatim_player",
    "serve_replay": "recording_server",
    "serve_scenario": "service.scenario_server",
    "start_replay": "loop_thread",
    "start_scenario": "loop_thread",
    "verify": "verbatim.verifier",
    "VerifyResult": "verbatim.verifier",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
