"""Replays and stand-ins for tests: `with wiretape.testing.replay("run.db") as service: ...`.

For pytest there are fixtures.  The library finds the replay by name only, as the command line does.
"""

from importlib import import_module

_MODULES = {
    "CheckedReplay": "wiretape_replay.testing.checked_servers",
    "CheckedService": "wiretape_replay.testing.checked_servers",
    "ClientError": "wiretape_replay.testing.checked_servers",
    "ReceivedRequest": "wiretape_replay.testing.checked_servers",
    "replay": "wiretape_replay.testing.checked_servers",
    "serve": "wiretape_replay.testing.checked_servers",
    "stream": "wiretape_replay.testing.checked_servers",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
