"""Bodies of responses of the service, which may contain an error envelope."""

from typing import Any

from wiretape.observations import BytesArrived, ResponseStarted
from wiretape.rules.response_body import ResponseBody
from wiretape_contracts.agent_sessions import ENVELOPE_FIELDS, ENVELOPE_KEY, FOLDED_CODES

_OPENING = b"{"
_ID_KEYS = ("id", "session", "name")
_MOST_OBJECTS = 100
_LONGEST_ID = 1000
_FIRST_KEY = f'"{ENVELOPE_KEY}"'.encode()


class ErrorBody(ResponseBody):
    """The body of an error response."""

    @property
    def envelope(self) -> dict[str, Any] | None:
        """The object under the key `error`; None if the body is not an error envelope."""
        error = self.document.get(ENVELOPE_KEY) if type(self.document) is dict else None
        return error if type(error) is dict else None

    @property
    def code(self) -> str | None:
        """The error code, if it is a string."""
        code = (self.envelope or {}).get("code")
        return code if type(code) is str else None


class SuccessBody(ErrorBody):
    """The body of a 2xx response, kept only as long as it may be an error envelope, or may name a new session."""

    def __init__(self, response: ResponseStarted, *, may_name_session: bool = False) -> None:
        super().__init__(response)
        self._may_name_session = may_name_session
        self.is_ruled_out = False
        """Whether the beginning of the body shows that it is not an error envelope."""

    def feed(self, span: BytesArrived) -> None:
        """Add more bytes of the body."""
        if not self.is_ruled_out:
            super().feed(span)

    def add_decoded(self, data: bytes) -> None:
        """Add decoded bytes, unless the beginning rules out an envelope."""
        if self.is_ruled_out:
            return
        super().add_decoded(data)
        if self._may_name_session:
            return
        first = bytes(self.body).lstrip()
        key = first.removeprefix(_OPENING).lstrip()[: len(_FIRST_KEY)]
        if first and not (first.startswith(_OPENING) and _FIRST_KEY.startswith(key)):
            self.is_ruled_out = True
            self.body.clear()

    @property
    def may_be_error(self) -> bool:
        """Whether what arrived of the body may begin an error envelope."""
        return not (self.is_ruled_out or self.is_empty)

    @property
    def session_ids(self) -> list[str]:
        """The strings in a whole body that may be the id of a session: in its object, or in objects within it.

        Those in lists may be ids of sessions that existed before.
        """
        objects = [self.document] if self.is_whole and self._may_name_session else []
        found: list[str] = []
        for item in objects:
            for name, value in item.items() if type(item) is dict else ():
                if type(value) is dict and len(objects) < _MOST_OBJECTS:
                    objects.append(value)
                elif type(value) is str and len(value) <= _LONGEST_ID and name.lower().endswith(_ID_KEYS):
                    found.append(value)
        return found[:_MOST_OBJECTS]

    @property
    def envelope(self) -> dict[str, Any] | None:
        """The object under the key `error`, if that is the only key."""
        document = self.document
        return super().envelope if type(document) is dict and len(document) == 1 else None

    @property
    def is_error(self) -> bool:
        """Whether it is an error envelope: with a code of the specification, or all fields of an error."""
        envelope, code = self.envelope or {}, self.code or ""
        if code.casefold() in FOLDED_CODES:
            return True
        return all(type(envelope.get(name)) is str for name in ENVELOPE_FIELDS)
