"""What can be set, read from text: `mitmdump --set` hands over nothing else without failing silently."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

_SIZE = re.compile(r"(\d+)\s*([kmg]?)i?b?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
NEVER = "never"
SEVERITIES = ("error", "warning", "note")
"""Of findings, worst first."""
_BASE = re.compile(r"(?:/[!$&-;=@-Z_a-z~%]+)*")
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Upstream:
    """The service in question."""

    scheme: str
    host: str
    port: int
    base: str = ""
    """The path that its own paths come after, such as `/agents`; empty for none."""

    @property
    def authority(self) -> str:
        """Host and port, the host in brackets where it is an IPv6 address."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """As people write it."""
        return f"{self.origin}{self.base}"

    @property
    def origin(self) -> str:
        """Without the base path."""
        return f"{self.scheme}://{self.authority}"

    def holds(self, path: str) -> bool:
        """Whether a path (or target) lies within the base path."""
        return path == self.base or path.startswith((f"{self.base}/", f"{self.base}?"))


def upstream(text: str) -> Upstream:
    """The service at an http(s) URL.  Raises ValueError."""
    hint = "an upstream is an http or https URL such as http://127.0.0.1:9000"
    try:
        parts = urlsplit(text)
        scheme, host, port = parts.scheme.lower(), parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"{text!r} is no URL ({error}): {hint}") from None
    if scheme not in _PORTS or not host or port == 0:
        raise ValueError(f"{text!r} names no service: {hint}")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError(f"{scheme}://{host} with a user, a query or a fragment is no upstream: {hint}")
    base = parts.path.rstrip("/")
    if not _BASE.fullmatch(base):
        raise ValueError(f"{base!r} is no path as it stands in requests: percent-encode what is special in it")
    return Upstream(scheme, host, port or _PORTS[scheme], base)


def flag(text: str) -> bool:
    """Yes or no.  Raises ValueError."""
    lower = text.strip().lower()
    if lower in {"true", "yes", "on", "1"}:
        return True
    if lower in {"false", "no", "off", "0", ""}:
        return False
    raise ValueError(f"{text!r} is neither true nor false")


def seconds(text: str) -> float | None:
    """A time in seconds; None for no limit.  Raises ValueError."""
    if text.strip().lower() in {"", "none", "0"}:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{text!r} is no number of seconds")
    return value


def size(text: str) -> int:
    """A number of bytes, such as 256M.  Raises ValueError."""
    match = _SIZE.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text!r} is no size such as 64M or 1G")
    return int(match[1]) * _UNITS[match[2].lower()]


def overload(text: str) -> str:
    """What to do when the recorder cannot keep up.  Raises ValueError."""
    if text not in {"slow", "drop"}:
        raise ValueError(f"{text!r} is neither slow nor drop")
    return text


def reaches(found: Mapping[str, int], threshold: str) -> bool:
    """Whether there was a finding as bad as `threshold`, or worse, with so many `found` of each severity."""
    bad = SEVERITIES[: SEVERITIES.index(threshold) + 1]
    return any(found.get(severity) for severity in bad)


def dated_name() -> str:
    """A name for a new recording."""
    return datetime.now().astimezone().strftime("wiretape-%Y%m%d-%H%M%S.db")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the addon goes by."""

    output: str = ""
    """The recording; empty for a new, dated name in the current directory."""
    append: bool = False
    upstream: Upstream | None = None
    """Record only what goes there; None: everything."""
    config: str = ""
    """The configuration of the rules: a file, `none`, or empty for the nearest one."""
    identity: bool = False
    """Ask the service for no content encoding."""
    idle_timeout: float | None = None
    """Seconds without a byte after which an open exchange is given up; None: never."""
    on_overload: str = "slow"
    memory: int = 256 << 20
    """How many bytes may wait for the recorder before it counts as overloaded."""


@dataclass(frozen=True, slots=True)
class Option:
    """A mitmproxy option, its value as text."""

    name: str
    default: str
    help: str
    read: Callable[[str], Any] = field(repr=False)


PREFIX = "wiretape_"
OPTIONS = (
    Option("output", "", "The recording; a new file with a dated name by default.", str),
    Option("append", "false", "Go on in a recording that exists (true or false).", flag),
    Option(
        "upstream",
        "",
        "Record only what goes to the service at this URL; everything by default.",
        lambda text: upstream(text) if text else None,
    ),
    Option(
        "config",
        "",
        "Configuration of the rules, or none; by default wiretape.toml or [tool.wiretape] in pyproject.toml, "
        "here or above.",
        str,
    ),
    Option("identity", "false", "Ask the service for no content encoding (true or false).", flag),
    Option("idle_timeout", "", "Give an open exchange up after this many seconds without a byte.", seconds),
    Option(
        "on_overload", "slow", "What to do when recording cannot keep up: slow the streams down, or drop.", overload
    ),
    Option("memory", "256M", "How many bytes may wait to be recorded.", size),
)


def read(texts: Mapping[str, str]) -> Settings:
    """Settings from the texts of options by their names.  Raises ValueError, naming the option."""
    values = {}
    for option in OPTIONS:
        try:
            values[option.name] = option.read(texts[option.name])
        except ValueError as error:
            raise ValueError(f"{PREFIX}{option.name}: {error}.") from None
    return Settings(**values)
