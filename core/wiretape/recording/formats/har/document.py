"""Types of a HAR file, as far as wiretape reads it.  Unknown keys are ignored, and null counts as absent."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from wiretape.decode import KeyPath, Source, decode
from wiretape.errors import InputError
from wiretape.files import read_error
from wiretape.json_codec import UnreadableJson, read_json
from wiretape.recording.builder import MAX_HELD_BYTES
from wiretape.safe_text import printable

_BOM = b"\xef\xbb\xbf"
_MAX_NUMBER = 2**62
_MAX_YEAR = 2200
"""Nanoseconds since 1970 fit into 64 bits until 2262."""
MAX_DURATION_MS = 366 * 24 * 3600 * 1000
"""No part of an exchange takes longer than a year."""


class _Object(msgspec.Struct, rename="camel", frozen=True):
    """An object of a HAR file."""


class NameValue(_Object, frozen=True):
    """A header, or a field of a form."""

    name: str | None = None
    value: str | None = None


class PostData(_Object, frozen=True):
    """The body of a request."""

    text: str | None = None
    params: list[NameValue] | None = None


class Request(_Object, frozen=True):
    """A request."""

    url: str | None = None
    method: str | None = None
    http_version: str | None = None
    headers: list[NameValue] | None = None
    post_data: PostData | None = None


class Content(_Object, frozen=True):
    """The body of a response."""

    size: float | None = None
    mime_type: str | None = None
    text: str | None = None
    encoding: str | None = None
    file: Any | UnsetType = msgspec.field(default=UNSET, name="_file")
    """Name of another file that contains the body."""


class Response(_Object, frozen=True):
    """A response; its status is 0 if there was none."""

    status: float | None = None
    status_text: str | None = None
    http_version: str | None = None
    headers: list[NameValue] | None = None
    content: Content | None = None
    error: Any = msgspec.field(default=None, name="_error")
    failure_text: Any = msgspec.field(default=None, name="_failureText")


class Timings(_Object, frozen=True):
    """Durations in milliseconds; -1 if they do not apply."""

    blocked: float | None = None
    dns: float | None = None
    connect: float | None = None
    """Includes `ssl`."""
    send: float | None = None
    wait: float | None = None
    receive: float | None = None


class EventSourceMessage(_Object, frozen=True):
    """An event of a stream, as Chromium's DevTools list it."""

    time: float | None = None
    """Seconds since 1970."""
    event_name: str | None = None
    event_id: str | None = None
    data: str | None = None
    """None in a sanitised file."""


class Entry(_Object, frozen=True):
    """A request and its response."""

    request: Request
    response: Response
    started_date_time: str | None = None
    timings: Timings | None = None
    resource_type: Any = msgspec.field(default=None, name="_resourceType")
    event_source_messages: list[EventSourceMessage] | None = msgspec.field(default=None, name="_eventSourceMessages")
    web_socket_messages: Any = msgspec.field(default=None, name="_webSocketMessages")


class _Creator(_Object, frozen=True):
    name: str | None = None


class Log(_Object, frozen=True):
    """The content of a file."""

    creator: _Creator | None = None
    entries: list[Entry] | None = None


class _File(_Object, frozen=True):
    log: Log


_DECODER = msgspec.json.Decoder(_File)


def load(path: Path) -> Log:
    """Read a file.  Raises InputError."""
    try:
        if path.stat().st_size > MAX_HELD_BYTES:
            raise InputError(f"{path} is too large for a HAR file: the limit is {MAX_HELD_BYTES >> 20} MiB.")
        data = path.read_bytes().removeprefix(_BOM)
    except OSError as error:
        raise InputError(read_error(path, error)) from None
    try:
        return _DECODER.decode(data).log
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        # Decode again: more slowly, but also with lone surrogates and invalid UTF-8, or with a good error message.
        value = read_json(data)
    if value is UnreadableJson.NOT_JSON:
        raise InputError(f"{path} is not a HAR file: it is not JSON, or it is truncated.")
    if isinstance(value, UnreadableJson):
        raise InputError(f"{path} cannot be read as HAR: it is nested too deeply, or a number in it is too long.")
    if not isinstance(value, dict):
        raise InputError(f"{path} is not a HAR file: it must be a JSON object with a log.")
    return decode(_replace_surrogates(value), _File, Source(str(path))).log


def _replace_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if not value.isascii() else value
    if isinstance(value, dict):
        return {_replace_surrogates(key): _replace_surrogates(item) for key, item in value.items()}
    return [_replace_surrogates(item) for item in value] if isinstance(value, list) else value


def positive(number: float | None) -> float:
    """Return a number; 0 if it is absent or negative."""
    return max(min(number or 0, _MAX_NUMBER), 0)


def parse_duration(value: float | None, source: Source, path: KeyPath) -> int:
    """Return a duration in nanoseconds.  Raises InputError."""
    milliseconds = positive(value)
    if milliseconds > MAX_DURATION_MS:
        raise source.error(path, "expected less than a year, in milliseconds")
    return round(milliseconds * 1_000_000)


def parse_time(text: str | None, source: Source, path: KeyPath) -> int:
    """Return a wall clock time, to the microsecond, as nanoseconds since 1970.  Raises InputError."""
    try:
        when = datetime.fromisoformat(text or "")
    except ValueError:
        shown = f", got {printable(repr(text[:60]))}" if text else ""
        raise source.error(path, f"expected a time such as 2026-11-21T12:00:00.000Z{shown}") from None
    if not 1970 < when.year < _MAX_YEAR:
        raise source.error(path, f"expected a year from 1971 to {_MAX_YEAR - 1}, got {when.year}")
    since = (when if when.tzinfo else when.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000
