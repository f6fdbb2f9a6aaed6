"""Bodies of responses that rules may read."""

from functools import cached_property
from typing import Any

from wiretape.content_encoding import DecodingError, decoder
from wiretape.json_codec import UnreadableJson, read_json
from wiretape.observations import BytesArrived, Ending, ResponseStarted, header

_LARGEST_BODY = 1 << 20
# A body is decoded in small steps, so that a small one that decompresses to a huge one does no harm.
_STEP = 1 << 10


class ResponseBody:
    """The body of a response, decoded and collected up to 1 MiB."""

    def __init__(self, response: ResponseStarted) -> None:
        self.response = response
        self.is_whole = False
        """Whether the whole body was recorded and could be decoded; False before the end."""
        self.body = bytearray()
        """What arrived, decoded."""
        self._incomplete = False
        try:
            self._decoder = decoder(header(response.headers, "content-encoding"))
        except DecodingError:
            self.give_up()

    def feed(self, span: BytesArrived) -> None:
        """Add more bytes of the body."""
        for begin in range(0, len(span.data), _STEP):
            if self._incomplete:
                return
            try:
                self.add_decoded(self._decoder.feed(span.data[begin : begin + _STEP]))
            except DecodingError:
                self.give_up()

    def give_up(self) -> None:
        """Drop the body, because a part of it is unknown."""
        self._incomplete = True
        self.body.clear()

    def close(self, ending: Ending) -> None:
        """The exchange ended."""
        self.is_whole = ending is Ending.COMPLETE and not self._incomplete

    def add_decoded(self, data: bytes) -> None:
        """Add decoded bytes."""
        self.body += data
        if len(self.body) > _LARGEST_BODY:
            self.give_up()

    @cached_property
    def document(self) -> Any:
        """The JSON value of the body, or an `UnreadableJson`."""
        is_text = bool(self.body) and (self.body.isascii() or self._is_utf8())
        return read_json(bytes(self.body)) if is_text else UnreadableJson.NOT_JSON

    @property
    def is_empty(self) -> bool:
        """Whether there is no body."""
        return not self.body

    @property
    def code(self) -> str | None:
        """The error code, if the contract reads it."""
        return None

    def _is_utf8(self) -> bool:
        try:
            self.body.decode()
        except UnicodeDecodeError:
            return False
        return True
