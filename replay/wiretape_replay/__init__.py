"""The offline service: plays recordings back.

What is named here is imported when it is asked for: pytest imports this package at every start.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wiretape_replay.serving import Options, Replay, serve_replay
    from wiretape_replay.tape.matching import Matching
    from wiretape_replay.tape.player import Missed, Served

__all__ = ["Matching", "Missed", "Options", "Replay", "Served", "serve_replay"]

_HOMES = {
    "Matching": "tape.matching",
    "Missed": "tape.player",
    "Options": "serving",
    "Replay": "serving",
    "Served": "tape.player",
    "serve_replay": "serving",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
