"""Asks a replay's control interface over HTTP."""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from wiretape.control_protocol import ROOT, TOKEN_HEADER, no_replay_error
from wiretape.errors import InputError
from wiretape.safe_text import shorten

_PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True)
class ControlClient:
    """Where a replay listens, and the token that it said.

    It is asked directly: a proxy or a redirection would see the token.
    """

    host: str
    port: int
    token: str

    @classmethod
    def at(cls, url: str, token: str) -> "ControlClient":
        """The replay at a URL.  Raises InputError."""
        try:
            where = urlsplit(url)
            port = where.port or 80
        except ValueError:
            raise no_replay_error(url) from None
        if where.scheme != "http" or not where.hostname or where.path not in {"", "/"} or where.query:
            raise no_replay_error(url)
        return cls(where.hostname, port, token)

    def get(self, name: str, session: str | None = None) -> dict[str, Any]:
        """What an operation tells.  Raises InputError."""
        query = f"?session={quote(session, safe='')}" if session is not None else ""
        return self._ask("GET", name + query)

    def send(
        self, name: str, fields: Mapping[str, object], *, method: str = "POST", takes_s: float = 0
    ) -> dict[str, Any]:
        """Do an operation, which may take that long; fields that are None are left out.  Raises InputError."""
        body = json.dumps({name: value for name, value in fields.items() if value is not None}).encode()
        return self._ask(method, name, body, takes_s)

    def _ask(self, method: str, name: str, body: bytes = b"", takes_s: float = 0) -> dict[str, Any]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=_PATIENCE_S + takes_s)
        headers = {TOKEN_HEADER: self.token, "Content-Type": "application/json", "Connection": "close"}
        try:
            connection.request(method, ROOT + name, body, headers)
            answer = connection.getresponse()
            return _document(answer.status, answer.read())
        except TimeoutError:
            raise InputError(f"The replay at {self._where} does not answer.") from None
        except OSError as error:
            why = error.strerror or str(error) or "the connection ended"
            raise InputError(f"The replay at {self._where} cannot be reached: {why}.") from None
        except (http.client.HTTPException, ValueError):
            raise InputError(f"What answers at {self._where} is no replay of wiretape.") from None
        finally:
            connection.close()

    @property
    def _where(self) -> str:
        return shorten(f"{self.host}:{self.port}")


def _document(status: int, body: bytes) -> dict[str, Any]:
    """Raises InputError for an error, in the words of the replay, and ValueError for what no replay answers."""
    document = json.loads(body)
    if not isinstance(document, dict):
        raise ValueError(document)  # noqa: TRY004 - JSON, but no answer
    if status == http.client.OK:
        return document
    error = document.get("error")
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        raise ValueError(document)  # noqa: TRY004
    raise InputError(shorten(error["message"], 600))
