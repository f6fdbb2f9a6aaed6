"""Options of a replay: one type for `wiretape replay`, the Python API and the pytest plugin."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wiretape.errors import InputError
from wiretape.json_path import JsonPath
from wiretape.safe_text import shorten
from wiretape.toml_files import is_toml_text, parse_toml, read_toml
from wiretape_replay.access.access_settings import AccessPolicy, decode_access_policy, effective_policy
from wiretape_replay.faults.fault_script import FaultScript, decode_fault_script
from wiretape_replay.verbatim.request_matching import Matching, Order, RepeatMode

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A token (RFC 9110, 5.6.2)."""

MODES = ("session", "verbatim")
PLAYHEADS = ("session", "connection")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """How a recording is replayed.  Raises InputError for values that are not valid."""

    mode: str = "session"
    """`session`: streams follow the playhead; `verbatim`: every request gets its recorded response."""
    speed: str | float = "max"
    """`max`, or a multiple of the recorded speed."""
    paused: bool = False
    """Start with all playheads paused."""
    playhead: str = "session"
    """`session`: one playhead per session; `connection`: one per stream that starts without a cursor."""
    faults: "FaultScript | Path | str | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None" = None
    """Faults to inject: a file, its text, the same as a dictionary, one fault, or a list of faults."""
    service: "AccessPolicy | Path | str | Mapping[str, Any] | None" = None
    """Keys, scopes, limits and workspaces: a file, its text, or the same as a dictionary."""
    limits: bool = False
    """Enforce the published limits for each tenant."""
    no_auth: bool = False
    """Accept requests without a key."""
    ignore_query: Sequence[str] | str = ()
    """Query parameters to ignore when requests are matched."""
    ignore_body: Sequence[str] | str = ()
    """JSON paths to ignore in request bodies."""
    match_header: Sequence[str] | str = ()
    """Request headers to match on as well."""
    order: str = Order.KIND
    """`kind`: recorded order within each kind of request; `strict`: recorded order of all requests."""
    repeat: str = RepeatMode.REFUSE
    """When all recorded responses are used: `refuse` with status 501, repeat the `last`, or `cycle`."""

    speed_factor: float = field(init=False, repr=False, compare=False)
    """The multiple of the recorded speed; infinity: at once."""
    matching: Matching = field(init=False, repr=False, compare=False)
    policy: AccessPolicy | None = field(init=False, repr=False, compare=False)
    """The content of `service`, parsed."""
    script: FaultScript = field(init=False, repr=False, compare=False)
    """The faults to inject, parsed."""

    def __post_init__(self) -> None:
        check_choice("mode", self.mode, MODES)
        check_choice("playhead", self.playhead, PLAYHEADS)
        if self.mode == "verbatim" and (self.paused or self.playhead == "connection"):
            raise InputError(
                "Verbatim mode has no playhead: leave out the options paused and playhead, or use session mode."
            )
        service = self.service
        if service is not None and not isinstance(service, AccessPolicy):
            service = decode_access_policy(*toml_document("service", service))
        script = fault_script(self.faults)
        script.check_mode(self.mode)
        parsed = {
            "speed_factor": parse_speed(self.speed),
            "matching": self._matching(),
            "policy": service,
            "script": script,
        }
        for name, value in parsed.items():
            object.__setattr__(self, name, value)

    def access_policy(self, *, recorded_keys: bool) -> AccessPolicy | None:
        """How requests are authenticated and limited; None: not at all.

        `recorded_keys` says whether the recorded service required keys, which is the default.
        """
        return effective_policy(
            self.policy, self.mode, recorded_keys=recorded_keys, limits=self.limits, no_auth=self.no_auth
        )

    def _matching(self) -> Matching:
        check_choice("order", self.order, list(Order))
        check_choice("repeat", self.repeat, list(RepeatMode))
        ignored_query = frozenset(string_list("ignore_query", self.ignore_query))
        if "" in ignored_query:
            raise InputError("Invalid ignore_query '': expected the name of a query parameter.")
        headers = string_list("match_header", self.match_header)
        for name in headers:
            if not _HEADER_NAME.fullmatch(name):
                raise InputError(f"Invalid match_header {shorten(repr(name), 60)}: expected the name of a header.")
        return Matching(
            ignored_query,
            tuple(map(JsonPath.of, string_list("ignore_body", self.ignore_body))),
            tuple(dict.fromkeys(name.lower() for name in headers)),
            Order(self.order),
            RepeatMode(self.repeat),
        )


def parse_speed(speed: str | float) -> float:
    """Parse `max`, which is infinity, or a number greater than 0.  Raises InputError."""
    try:
        factor = math.inf if speed == "max" else float(speed)
    except ValueError:
        factor = math.nan
    if not factor > 0 or (factor == math.inf and isinstance(speed, str) and speed != "max"):
        raise InputError(f"Invalid speed {speed!r}: expected max or a number greater than 0, such as 1 or 10.")
    return factor


def fault_script(value: object) -> FaultScript:
    """The faults given as a file, its text, a dictionary, one fault or a list of faults.  Raises InputError."""
    if value is None:
        return FaultScript()
    if isinstance(value, FaultScript):
        return value
    if isinstance(value, Mapping) and "do" in value:
        value = [value]
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = {"fault": [dict(fault) if isinstance(fault, Mapping) else fault for fault in value]}
    document, name = toml_document("faults", value, ", or a list of faults")
    return decode_fault_script(document, name)


def toml_document(option: str, value: object, more: str = "") -> tuple[Mapping[str, Any], str]:
    """The TOML document that an option gives as a file, as text or as a dictionary, and what errors call it.

    `more` names what else the option accepts.  Raises InputError.
    """
    if isinstance(value, str) and is_toml_text(value):
        return parse_toml(value, option), option
    if isinstance(value, str | Path):
        return read_toml(Path(value)), str(value)
    if isinstance(value, Mapping):
        return value, option
    got = shorten(repr(value), 60)
    raise InputError(f"Invalid {option} {got}: expected a file, TOML text{',' if more else ' or'} a dictionary{more}.")


def check_choice(option: str, value: object, choices: Sequence[str]) -> None:
    """Raise InputError for a value that is not one of `choices`."""
    if value not in choices:
        *others, last = choices
        raise InputError(f"Invalid {option} {shorten(repr(value), 60)}: expected {', '.join(others)} or {last}.")


def string_list(option: str, value: object) -> Sequence[str]:
    """A list of strings; a single string becomes a list of one.  Raises InputError."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Sequence) or not all(isinstance(text, str) for text in value):
        raise InputError(f"Invalid {option} {shorten(repr(value), 60)}: expected a list of strings.")
    return value
