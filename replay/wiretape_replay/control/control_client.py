"""HTTP client of a replay's control API."""

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from wiretape.control_protocol import CONTROL_ROOT, TOKEN_HEADER, replay_url_error
from wiretape.errors import InputError
from wiretape.safe_text import shorten

_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class ControlClient:
    """The address of a replay, and its control token.

    Requests go to it directly, and redirections are not followed: a proxy or another server would see the token.
    """

    host: str
    port: int
    token: str

    @classmethod
    def of_url(cls, url: str, token: str) -> "ControlClient":
        """The client for the replay at a URL.  Raises InputError."""
        try:
            parts = urlsplit(url)
            port = parts.port or 80
        except ValueError:
            raise replay_url_error(url) from None
        if parts.scheme != "http" or not parts.hostname or parts.path not in {"", "/"} or parts.query:
            raise replay_url_error(url)
        return cls(parts.hostname, port, token)

    def send(
        self, method: str, operation: str, parameters: Mapping[str, object], *, takes_s: float = 0
    ) -> dict[str, Any]:
        """Do an operation, which may take `takes_s` seconds; parameters that are None are left out.

        Return the document of the response.  Raises InputError.
        """
        parameters = {name: value for name, value in parameters.items() if value is not None}
        query = body = ""
        if method == "GET":
            query = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in parameters.items())
        else:
            body = json.dumps(parameters)
        path = CONTROL_ROOT + operation + (f"?{query}" if query else "")
        headers = {TOKEN_HEADER: self.token, "Content-Type": "application/json", "Connection": "close"}
        connection = http.client.HTTPConnection(self.host, self.port, timeout=_TIMEOUT_S + takes_s)
        address = shorten(f"{self.host}:{self.port}")
        try:
            connection.request(method, path, body.encode(), headers)
            response = connection.getresponse()
            return _read_document(response.status, response.read())
        except TimeoutError:
            raise InputError(f"The replay at {address} does not respond.") from None
        except OSError as error:
            reason = error.strerror or str(error) or "the connection was closed"
            raise InputError(f"Cannot reach the replay at {address}: {reason}.") from None
        except (http.client.HTTPException, ValueError):
            raise InputError(f"The server at {address} is not a replay of wiretape.") from None
        finally:
            connection.close()


def _read_document(status: int, body: bytes) -> dict[str, Any]:
    """The document of a response.  Raises InputError for an error of the replay, ValueError for other servers."""
    document = json.loads(body)
    if not isinstance(document, dict):
        raise ValueError(document)  # noqa: TRY004 - JSON, but not of a replay
    if status == http.client.OK:
        return document
    error = document.get("error")
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        raise ValueError(document)  # noqa: TRY004 - as above
    raise InputError(shorten(error["message"], 600))
