"""The body of an answer with an error status, and what it says."""

from functools import cached_property
from typing import Any

from wiretape.contract import ENVELOPE_KEY
from wiretape.encoding import DecodingError, decoder
from wiretape.observe import BytesArrived, Ending, ResponseStarted, header
from wiretape.rules.jsontext import Unread, read

_LARGEST_BODY = 1 << 20
# A body is decoded a little at a time, so that a small one which unpacks to a huge one does no harm.
_STEP = 1 << 10


class Answer:
    """An answer with a status of 400 or above; its body is collected up to 1 MiB, decoded."""

    def __init__(self, response: ResponseStarted) -> None:
        self.response = response
        self.whole = False
        """Whether all of the body was seen and could be decoded; before the end it is not."""
        self._body = bytearray()
        self._incomplete = False
        try:
            self._decoder = decoder(header(response.headers, "content-encoding"))
        except DecodingError:
            self.miss()

    def feed(self, run: BytesArrived) -> None:
        """More of the body arrived."""
        for begin in range(0, len(run.data), _STEP):
            if self._incomplete:
                return
            try:
                self._body += self._decoder.feed(run.data[begin : begin + _STEP])
            except DecodingError:
                self.miss()
            if len(self._body) > _LARGEST_BODY:
                self.miss()

    def miss(self) -> None:
        """Some of the body is not known, so none of it can be judged."""
        self._incomplete = True
        self._body.clear()

    def close(self, ending: Ending) -> None:
        """The exchange ended."""
        self.whole = ending is Ending.COMPLETE and not self._incomplete

    @cached_property
    def document(self) -> Any:
        """The JSON value that the body is, or an `Unread`."""
        return read(bytes(self._body)) if self._body.isascii() or self._decodes() else Unread.NOT_JSON

    @property
    def is_empty(self) -> bool:
        """Whether there is no body."""
        return not self._body

    @property
    def envelope(self) -> dict[str, Any] | None:
        """The object that stands under the key of the error envelope; None when the body is no envelope."""
        error = self.document.get(ENVELOPE_KEY) if type(self.document) is dict else None
        return error if type(error) is dict else None

    @property
    def code(self) -> str | None:
        """The error code, when there is one and it is a string."""
        code = (self.envelope or {}).get("code")
        return code if type(code) is str else None

    def _decodes(self) -> bool:
        try:
            self._body.decode()
        except UnicodeDecodeError:
            return False
        return True
