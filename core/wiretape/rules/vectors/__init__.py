"""Vectors: for each rule the smallest traffic that breaks it, and the smallest that keeps it.

They are TOML files, `CODE/breaks*.toml` and `CODE/keeps*.toml`.  One that breaks a rule gives exactly one
finding, of that rule; one that keeps it brings the rule up and gives none.

    shows = "One sentence on what the traffic shows."
    also = ["CLI001"]                      # what the traffic cannot be without: a defect of the other side
    severity = "error"                     # of the finding, where it is not the one of the catalogue

    [[exchange]]                           # one or more, in order of time
    request = "GET /v1/sessions/ses_1/events/stream?event_deltas=true"
    headers = ["Authorization: Bearer key_1"]                  # the default
    client = "127.0.0.1"                                       # the default
    at = 0.0                               # seconds; the default is a second after the one before has ended
    status = 200                           # the default; 0 for no response at all
    response_headers = ["Content-Type: text/event-stream"]     # the default for 200; else application/json
    ending = "complete"                    # the default; one of `wiretape.observations.Ending`
    ends_after = 0.0                       # the default: seconds between the last byte and the end
    latin1 = false                         # true: each character of the body stands for one byte
    body = '''
    event: message.delta
    data: {"type":"message.delta","run_id":"run_1","delta":{"text":"Hi"}}

    '''

Instead of one `body`, tables `[[exchange.part]]` give its pieces: each has a `text`, or a number of bytes that
were `lost`, and `after`, the seconds since the piece before.  Where the response headers say
`Content-Encoding: gzip`, the body is compressed.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from wiretape.observations import Observation
from wiretape.rules.finding import Severity
from wiretape.rules.vectors.traffic import observations


@dataclass(frozen=True, slots=True)
class Vector:
    """One case: some traffic, and whether it breaks the rule."""

    code: str
    name: str
    """The file's name without its ending; begins with `breaks` or `keeps`."""
    text: str
    """The file itself."""

    @property
    def breaks(self) -> bool:
        """Whether the rule is broken."""
        return self.name.startswith("breaks")

    @property
    def shows(self) -> str:
        """What the traffic shows, in one sentence."""
        return str(tomllib.loads(self.text)["shows"])

    @property
    def also(self) -> tuple[str, ...]:
        """Codes of findings of the other side, without which this traffic cannot be."""
        return tuple(tomllib.loads(self.text).get("also", ()))

    @property
    def severity(self) -> Severity | None:
        """How bad the finding is, where that is not what the catalogue says of the rule."""
        severity = tomllib.loads(self.text).get("severity")
        return None if severity is None else Severity(severity)

    def observations(self, piece: int | None = None) -> list[Observation]:
        """The traffic as observations.  With `piece`, bodies arrive in pieces of at most so many bytes."""
        return observations(tomllib.loads(self.text), piece)


@cache
def vectors() -> tuple[Vector, ...]:
    """All vectors, in the order of code and name."""
    found = [
        Vector(folder.name, file.name.removesuffix(".toml"), file.read_text("utf-8"))
        for folder in files(__name__).iterdir()
        if folder.is_dir()
        for file in folder.iterdir()
        if file.name.endswith(".toml")
    ]
    return tuple(sorted(found, key=lambda vector: (vector.code, vector.name)))


def vectors_of(code: str) -> tuple[Vector, ...]:
    """The vectors of one rule."""
    return tuple(vector for vector in vectors() if vector.code == code)
