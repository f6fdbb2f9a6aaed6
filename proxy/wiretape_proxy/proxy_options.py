"""Options of the addon, parsed from text: `mitmdump --set` fails silently for any other type."""

import math
import re
import shlex
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from functools import partial
from typing import Any

from wiretape.addresses import Upstream, parse_upstream
from wiretape.errors import InputError
from wiretape.json_path import JsonPath
from wiretape.observations import is_header_name
from wiretape.units import parse_duration, parse_size

FAIL_ON = ("error", "warning", "note", "inconclusive", "never")
"""The values of `--fail-on`: severities, worst first, and two others."""
NO_CONFIG = "none"
_PARAMETER_NAME = re.compile(r"[^=&?#*]+")
_LEAST_MEMORY = 1 << 20


def parse_base(text: str) -> str:
    """Check the base path or base URL of the service; empty if not named.  Raises ValueError."""
    # The rules take long to import, and usually no base is given.
    if text:
        from wiretape.rules import parse_service_base  # noqa: PLC0415

        parse_service_base(text)
    return text


def parse_flag(text: str) -> bool:
    """Parse true or false.  Raises ValueError."""
    lower = text.strip().lower()
    if lower in {"true", "yes", "on", "1"}:
        return True
    if lower in {"false", "no", "off", "0", ""}:
        return False
    raise ValueError(f"expected true or false, got {text!r}")


def parse_seconds(text: str) -> float | None:
    """Parse a number of seconds; return None for no limit.  Raises ValueError."""
    if text.strip().lower() in {"", "none", "0"}:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"expected a number of seconds, got {text!r}")
    return value


@dataclass(frozen=True, slots=True)
class RotationLimit:
    """When a recording continues in a new file."""

    size: int | None = None
    """Bytes of the file."""
    seconds: float | None = None


def parse_rotation(text: str) -> RotationLimit | None:
    """Parse a size such as 500M or a duration such as 15min; empty for none.  Raises ValueError."""
    if not text:
        return None
    with suppress(ValueError):
        if (duration := parse_duration(text)) > 0:
            return RotationLimit(seconds=duration / 1e9)
    try:
        # `15m` could mean minutes.
        return RotationLimit(size=parse_size("" if text.endswith("m") else text))
    except ValueError:
        raise ValueError(f"expected a size such as 500M or a duration such as 15min, got {text!r}") from None


def parse_command(text: str) -> tuple[str, ...]:
    """Parse a command line.  Raises ValueError."""
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ValueError(f"expected a command, got {text!r} ({error})") from None
    if words and shutil.which(words[0]) is None:
        raise ValueError(f"the command {words[0]!r} does not exist")
    return words


def parse_overload(text: str) -> str:
    """Parse what to do if recording cannot keep up.  Raises ValueError."""
    if text not in {"slow", "drop"}:
        raise ValueError(f"expected slow or drop, got {text!r}")
    return text


def parse_lines(check: Callable[[str], object], text: str) -> tuple[str, ...]:
    """Parse lines that are not empty; `check` raises ValueError for an invalid one."""
    lines = tuple(line.strip() for line in text.splitlines() if line.strip())
    for line in lines:
        check(line)
    return lines


def _check_parameter(name: str) -> None:
    if not _PARAMETER_NAME.fullmatch(name):
        raise ValueError(f"expected the name of a query parameter such as api_key, got {name!r}")


def _check_header(name: str) -> None:
    if not is_header_name(name):
        raise ValueError(f"expected the name of a header such as X-Tenant, got {name!r}")


def _check_path(path: str) -> None:
    try:
        JsonPath.of(path)
    except InputError as error:
        raise ValueError(error.message.rstrip(".")) from None


def dated_name() -> str:
    """Return a name for a new recording."""
    return datetime.now().astimezone().strftime("wiretape-%Y%m%d-%H%M%S.db")


def parse_memory(text: str) -> int:
    """Parse a size that is enough to record with.  Raises ValueError."""
    size = parse_size(text)
    if size < _LEAST_MEMORY:
        raise ValueError(f"expected at least 1M, got {text!r}")
    return size


@dataclass(frozen=True, slots=True)
class Option:
    """An option of the addon, whose value is text, and of the command."""

    help: str
    parse: Callable[[str], Any] = field(default=str, repr=False)
    metavar: str = ""
    """How the help of the command names its value; empty if it is not an option of the command."""
    default: str = ""
    letter: str = ""
    """Its short form on the command line; may be empty."""
    is_repeatable: bool = False
    name: str = ""

    @property
    def is_flag(self) -> bool:
        """Whether it is true or false."""
        return self.parse is parse_flag

    @property
    def addon_help(self) -> str:
        """The help of mitmproxy's option, which says what the text is."""
        form = " (true or false)" if self.is_flag else " (one per line)" if self.is_repeatable else ""
        return f"{self.help.removesuffix('.')}{form}."


def _option(*given: Any, **more: Any) -> Any:
    """Return a field of `Settings`, which becomes an `Option` with these values."""
    option = Option(*given, **more)
    return field(default=option.parse(option.default), metadata={"option": option})


def _flag(description: str) -> Any:
    return _option(description, parse_flag, default="false")


def _lines(description: str, check: Callable[[str], object], metavar: str) -> Any:
    return _option(description, partial(parse_lines, check), metavar, is_repeatable=True)


@dataclass(frozen=True, slots=True)
class Settings:
    """The values of the options: each option is declared here only, for the addon and for the command."""

    output: str = _option("Recording to write; by default, wiretape-DATE-TIME.db.", str, "FILE", letter="-o")
    append: bool = _flag("Append to an existing recording.")
    upstream: Upstream | None = _option(  # noqa: RUF009 - a field
        "Record only traffic to this URL; by default, record all traffic.",
        lambda text: parse_upstream(text) if text else None,
    )
    redact_header: tuple[str, ...] = _lines("Also redact this header.", _check_header, "NAME")
    redact_query: tuple[str, ...] = _lines("Also redact this query parameter.", _check_parameter, "NAME")
    redact_body: tuple[str, ...] = _lines(
        "Overwrite what this JSON path selects in bodies and events.", _check_path, "PATH"
    )
    identity: bool = _flag("Ask the service not to compress responses.")
    idle_timeout: float | None = _option(
        "Close an exchange after this many seconds without data.", parse_seconds, "SECONDS", default="none"
    )
    on_overload: str = _option(
        "If recording cannot keep up: slow the streams down, or let bytes pass unrecorded.",
        parse_overload,
        "[slow|drop]",
        default="slow",
    )
    memory: int = _option("Maximum amount of data waiting to be recorded.", parse_memory, "SIZE", default="256M")
    rotate: RotationLimit | None = _option(  # noqa: RUF009 - a field
        "Continue in a new file at this size or after this time, such as 500M or 15min.",
        parse_rotation,
        "SIZE|DURATION",
    )
    rotate_command: tuple[str, ...] = _option(
        "Command to run with the path of each closed file, for example to upload it.", parse_command, "COMMAND"
    )
    compress: bool = _flag("When the recording is closed, compress it with zstd, to FILE.zst.")
    config: str = _option(
        "Configuration file to use instead of the nearest wiretape.toml or pyproject.toml.", str, "FILE"
    )
    contract: tuple[str, ...] = _lines(
        "Check with this contract instead of the built-in rules; see `wiretape contract list`.", str, "NAME_OR_FILE"
    )
    allow_code: bool = _flag("Run the Python code that the rules of a contract file name.")
    base: str = _option("Base path or URL of the service: the part before /v1.", parse_base, "PATH_OR_URL")


PREFIX = "wiretape_"
OPTIONS: tuple[Option, ...] = tuple(replace(each.metadata["option"], name=each.name) for each in fields(Settings))


def parse_options(texts: Mapping[str, str]) -> Settings:
    """Parse the texts of all options.  Raises ValueError with the name of the option."""
    values = {}
    for option in OPTIONS:
        try:
            values[option.name] = option.parse(texts[option.name])
        except ValueError as error:
            raise ValueError(f"{PREFIX}{option.name}: {error}.") from None
    for one, other in (("rotate", "append"), ("contract", "base")):
        if values[one] and values[other]:
            raise ValueError(f"{PREFIX}{one} and {PREFIX}{other} cannot be combined.")
    return Settings(**values)
