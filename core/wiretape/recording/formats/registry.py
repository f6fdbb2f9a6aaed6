"""Which formats there are.  Each is loaded when it is asked for, so that looking at recordings needs none of them."""

import re
from codecs import getincrementaldecoder
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wiretape.errors import InputError
from wiretape.safe_text import closest_match, printable

if TYPE_CHECKING:
    from wiretape.recording.formats.model import Reads, Writes

_BEGINNING = 64 * 1024
_UTF_16 = re.compile(rb"\xff\xfe|\xfe\xff|(?:[\t\r\n -~]\0){4}|(?:\0[\t\r\n -~]){4}")


@dataclass(frozen=True, slots=True)
class Format:
    """A format: its name, and where what reads and writes it is to be found (`module:object`)."""

    name: str
    called: str
    """What a file of it is, in a sentence."""
    title: str
    """What it is, for people: the rest of a sentence that begins with the name."""
    reads: str | None = None
    """A `Reads`; None where it cannot be read."""
    writes: str | None = None
    """A `Writes`; None where it is not written, or in a way of its own."""
    opens: bool = False
    """Whether `open_recording` takes a file of this kind as it is: it has to hold all that a recording has."""

    def reader(self) -> "Reads":
        """What reads it.  Raises InputError where nothing does."""
        if self.reads is None:
            raise InputError(f"{self.name} is written only: it does not hold enough to be read back.")
        reads: Reads = _load(self.reads)
        return reads

    def writer(self) -> "Writes":
        """What writes it.  Raises InputError where nothing does."""
        if self.writes is None:
            raise InputError(f"{self.name} is read only.")
        writes: Writes = _load(self.writes)
        return writes


FORMATS = (
    Format(
        "jsonl",
        "JSON lines",
        "a JSON object for everything that was observed, in order of time: nothing is lost",
        reads="wiretape.recording.formats.jsonl:READS",
        writes="wiretape.recording.formats.jsonl:WRITES",
        opens=True,
    ),
    Format(
        "tape",
        "a tape",
        "YAML for people and git, with events as data: nothing observed is lost",
        reads="wiretape.recording.formats.tape:READS",
        writes="wiretape.recording.formats.tape:WRITES",
        opens=True,
    ),
    Format(
        "har",
        "a HAR",
        "HTTP Archive 1.2, as browsers and DevTools take it: docs/har.md says what it does not hold",
        reads="wiretape.recording.formats.har:READS",
        writes="wiretape_inspect.archive:WRITES",
    ),
    Format(
        "flows",
        "a flow file of mitmproxy",
        "flows that mitmproxy saved (`mitmdump -w`)",
        reads="wiretape_proxy.flows:READS",
    ),
    Format(
        "sse",
        "a raw event stream",
        "the bytes of one event stream",
        reads="wiretape.recording.formats.sse:READS",
    ),
)
"""Every format, in the order in which a file is tried."""


def named(name: str) -> Format:
    """The format of a name.  Raises InputError where there is none."""
    for each in FORMATS:
        if each.name == name:
            return each
    similar = closest_match(name, [each.name for each in FORMATS])
    raise InputError(f"There is no format {printable(name)}" + (f", did you mean {similar}?" if similar else "."))


def format_of(path: Path) -> Format | None:
    """The format that a file has, by what it begins with; None where none is known.

    Raises OSError, and InputError for UTF-16, of which no format is.
    """
    beginning = _beginning(path)
    readable = (each for each in FORMATS if each.reads is not None)
    found = next((each for each in readable if each.reader().fits(beginning)), None)
    if found is None and _UTF_16.match(beginning):
        raise InputError(f"{path} looks like text in UTF-16: save it as UTF-8.")
    return found


def is_text(path: Path) -> bool:
    """Whether a file begins like text, in UTF-8.  Raises OSError."""
    try:
        return "\0" not in getincrementaldecoder("utf-8")().decode(_beginning(path))
    except UnicodeDecodeError:
        return False


def _beginning(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_BEGINNING)


def _load(where: str) -> Any:
    module, _, attribute = where.partition(":")
    return getattr(import_module(module), attribute)
