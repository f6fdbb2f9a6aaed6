"""wiretape: record, check and replay event streams.

docs/python.md describes what can be imported from here.  Replays and stand-ins for tests are in `wiretape.testing`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from wiretape.checker import Checker as Checker
    from wiretape.checker import Settings as Settings
    from wiretape.checking import CheckResult as CheckResult
    from wiretape.checking import check as check
    from wiretape.checking import check_stream as check_stream
    from wiretape.errors import InputError as InputError
    from wiretape.errors import RecordingError as RecordingError
    from wiretape.event import Event as Event
    from wiretape.observations import BytesArrived as BytesArrived
    from wiretape.observations import BytesLost as BytesLost
    from wiretape.observations import Ending as Ending
    from wiretape.observations import ExchangeEnded as ExchangeEnded
    from wiretape.observations import Observation as Observation
    from wiretape.observations import RequestEnded as RequestEnded
    from wiretape.observations import RequestStarted as RequestStarted
    from wiretape.observations import ResponseStarted as ResponseStarted
    from wiretape.observations import Side as Side
    from wiretape.recording import Exchange as Exchange
    from wiretape.recording import Recording as Recording
    from wiretape.recording import open_recording as open_recording
    from wiretape.rules import Finding as Finding
    from wiretape.rules import Severity as Severity
    from wiretape.rules import Verdict as Verdict
    from wiretape.sse import Frame as Frame
    from wiretape.sse import FrameKind as FrameKind
    from wiretape.sse import Parser as Parser
    from wiretape.traffic_builder import ExchangeBuilder as ExchangeBuilder
    from wiretape.traffic_builder import TrafficBuilder as TrafficBuilder

_MODULES = {
    "wiretape.checker": ("Checker", "Settings"),
    "wiretape.checking": ("CheckResult", "check", "check_stream"),
    "wiretape.errors": ("InputError", "RecordingError"),
    "wiretape.observations": (
        "BytesArrived",
        "BytesLost",
        "Ending",
        "ExchangeEnded",
        "Observation",
        "RequestEnded",
        "RequestStarted",
        "ResponseStarted",
        "Side",
    ),
    "wiretape.event": ("Event",),
    "wiretape.recording": ("Exchange", "Recording", "open_recording"),
    "wiretape.rules": ("Finding", "Severity", "Verdict"),
    "wiretape.sse": ("Frame", "FrameKind", "Parser"),
    "wiretape.traffic_builder": ("ExchangeBuilder", "TrafficBuilder"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = ["__version__", *_MODULE_OF]  # noqa: PLE0604 - the names of the table


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that the command line starts quickly."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'wiretape' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), name)
