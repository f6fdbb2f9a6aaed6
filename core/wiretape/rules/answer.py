"""The body of an answer with an error status, and what it says."""

from functools import cached_property
from typing import Any

from wiretape.content_encoding import DecodingError, decoder
from wiretape.contract import ENVELOPE_KEY
from wiretape.json_reader import UnreadableJson, read_json
from wiretape.observations import BytesArrived, Ending, ResponseStarted, header

_LARGEST_BODY = 1 << 20
# A body is decoded a little at a time, so that a small one which unpacks to a huge one does no harm.
_STEP = 1 << 10
_OPENING = b"{"
_FIRST_KEY = f'"{ENVELOPE_KEY}"'.encode()


class Answer:
    """An answer that may hold an error; its body is collected up to 1 MiB, decoded."""

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
                self.read(self._decoder.feed(run.data[begin : begin + _STEP]))
            except DecodingError:
                self.miss()

    def miss(self) -> None:
        """Some of the body is not known, so none of it can be judged."""
        self._incomplete = True
        self._body.clear()

    def close(self, ending: Ending) -> None:
        """The exchange ended."""
        self.whole = ending is Ending.COMPLETE and not self._incomplete

    def read(self, data: bytes) -> None:
        """More of the decoded body is there."""
        self._body += data
        if len(self._body) > _LARGEST_BODY:
            self.miss()

    @cached_property
    def document(self) -> Any:
        """The JSON value that the body is, or an `Unread`."""
        return read_json(bytes(self._body)) if self._body.isascii() or self._decodes() else UnreadableJson.NOT_JSON

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

    @property
    def request_id(self) -> str | None:
        """The id of the request, when the whole of the answer is an envelope that tells it."""
        request_id = (self.envelope or {}).get("request_id") if self.whole else None
        return request_id if type(request_id) is str else None

    def _decodes(self) -> bool:
        try:
            self._body.decode()
        except UnicodeDecodeError:
            return False
        return True


class GoodAnswer(Answer):
    """An answer with a status of 2xx.  Of its body no more is kept than tells that it is no error envelope."""

    def __init__(self, response: ResponseStarted) -> None:
        super().__init__(response)
        self.is_other = False
        """Whether the body has begun as no error envelope does."""

    def feed(self, run: BytesArrived) -> None:
        """More of the body arrived."""
        if not self.is_other:
            super().feed(run)

    def read(self, data: bytes) -> None:
        """More of the decoded body is there."""
        if self.is_other:
            return
        super().read(data)
        first = bytes(self._body).lstrip()
        key = first.removeprefix(_OPENING).lstrip()[: len(_FIRST_KEY)]
        if first and not (first.startswith(_OPENING) and _FIRST_KEY.startswith(key)):
            self.is_other = True
            self._body.clear()

    @property
    def envelope(self) -> dict[str, Any] | None:
        """What stands under the key of the error envelope, when that is the only key."""
        document = self.document
        return super().envelope if type(document) is dict and len(document) == 1 else None
