"""What is to be said of a HAR that was read: what it does not hold, and what was made up for that."""

from collections import defaultdict
from collections.abc import Iterator

from wiretape.recording.recording_source import list_exchanges

ALWAYS = (
    "A HAR does not hold the chunks that bodies came in, how exchanges ended, when comments came, or who the client "
    "was: docs/har.md says what stands in their place."
)
_SENTENCES = {
    "rebuilt": (
        "The bytes of {} were put together from the events that the HAR lists: comments and silences (KAL001) "
        "are not as they were"
    ),
    "blank": "The data of events of {} was left out where the HAR was written (sanitised): they come without it",
    "timeless": "The events of {} have no times in the HAR: all come with the head of the answer",
    "astray": "The events that the HAR lists do not fit the body of {}: from there on all come at once",
    "mended": "Chromium had read the UTF-8 of {} as windows-1252: that is undone",
    "absent": "The body of {} is not in the HAR",
    "cut": (
        "The body of {} is shorter than the HAR says that it was: "
        "Firefox keeps 1 MiB of each (devtools.netmonitor.responseBodyLimit)"
    ),
    "elsewhere": "The body of {} is in a file of its own, which is not read: record with the content embedded",
    "decoded": "The body of {} was compressed on the wire: it comes decoded, without its Content-Encoding and length",
    "form": "The request body of {} was put together from the fields of a form",
}


class Notes:
    """Collects the exchanges that something is to be said of."""

    def __init__(self) -> None:
        self._about: dict[str, list[int]] = defaultdict(list)
        self.skipped = 0
        """Entries that are no exchange over HTTP."""
        self.keys = False
        """Whether a request has a header with a key."""

    def add(self, what: str, exchange: int) -> None:
        """Note one of `_SENTENCES` about an exchange."""
        self._about[what].append(exchange)

    def sentences(self) -> Iterator[str]:
        """All of them."""
        yield ALWAYS
        if self.skipped:
            entries = "1 entry is" if self.skipped == 1 else f"{self.skipped} entries are"
            yield f"{entries} no HTTP request, and left out."
        if not self.keys:
            yield "No request carries a key, as in a HAR that was sanitised: findings about keys (AUTH) mean nothing."
        for what, sentence in _SENTENCES.items():
            if what in self._about:
                yield sentence.format(list_exchanges(self._about[what])) + "."
