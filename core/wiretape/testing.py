"""Replays for tests: `with wiretape.testing.replay("run.db") as service: ...`.  For pytest there are fixtures.

The library knows the replay by name only, as the command line does.
"""

from importlib import import_module

_HOMES = {
    "ClientError": "wiretape_replay.testing.runners",
    "JudgedReplay": "wiretape_replay.testing.judged",
    "Request": "wiretape_replay.testing.listening",
    "replay": "wiretape_replay.testing.runners",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
