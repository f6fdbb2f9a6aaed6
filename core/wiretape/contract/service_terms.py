"""What a contract says about its service apart from streams: errors, limits and scopes.

Replays and stand-ins refuse requests as it says.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

from msgspec import Struct, field

from wiretape.contract.contract_tables import CodeTable, ErrorCase, ErrorFormatTable, LimitTable
from wiretape.observations import Headers, is_header_name
from wiretape.patterns import Pointer, list_of, set_value


class ErrorFormat:
    """How the facts of errors are read."""

    def __init__(self, table: ErrorFormatTable) -> None:
        """Raises ValueError."""
        self.object = None if table.object is None else Pointer(table.object)
        """Where bodies have the object with the fields of an error; None if it is the whole body."""
        self._code = None if table.code is None else Pointer(table.code)
        self.table = table
        codes = table.codes or {}
        self.codes: Mapping[str, int] = {
            code: each if isinstance(each, int) else each.status for code, each in codes.items()
        }
        """The status of each code."""

    def find_object(self, document: Any) -> dict[str, Any] | None:
        """Return the object that has the fields of an error; None if a body has none."""
        found = document if self.object is None else self.object.read(document)
        return found if type(found) is dict else None

    def read_code(self, document: Any) -> str | None:
        """Return the error code, if it is a string."""
        code = None if self._code is None else self._code.read(document)
        return code if type(code) is str else None

    def require_code(self, *, codes: bool = False) -> None:
        """Raise ValueError unless the contract says where errors have their code, and which codes exist."""
        if self._code is None or (codes and not self.codes):
            missing = "codes" if self._code is not None else "code"
            raise ValueError(f"{missing} of errors is not defined: add it to the table [error]")


NO_ERROR_FORMAT = ErrorFormat(ErrorFormatTable())
"""Errors without facts: the whole body is the object."""


DEFAULT_KEEP_ALIVE_S = 15.0
_LONGEST_VALUE = 200
"""Longest field that others repeat: each could repeat the one before it twice."""
_PLACEHOLDER = re.compile(r"(/?)\{(\w+)(?:\|([^{}]*))?\}")


class Limit(Struct, frozen=True):
    """A number of requests per window, for each tenant."""

    requests: int
    window_seconds: int


class ErrorDocument(Struct, frozen=True):
    """An error response: its status, its JSON and its headers."""

    status: int
    document: Mapping[str, Any]
    headers: Headers


class ErrorWriter:
    """The codes of a contract, and how responses state them."""

    def __init__(self, table: ErrorFormatTable) -> None:
        """The table has a pointer to the code.  Raises ValueError."""
        self._pointers = {
            name: Pointer(text) for name in ("code", "message", "request_id") if (text := getattr(table, name))
        }
        self._fields = table.object or (table.code or "").rpartition("/")[0]
        codes = (table.codes or {}).items()
        self.codes = {code: CodeTable(each) if isinstance(each, int) else each for code, each in codes}
        self._cases: dict[ErrorCase, str] = {}
        for code, each in self.codes.items():
            if each.when is not None and self._cases.setdefault(each.when, code) != code:
                raise ValueError(f"{self._cases[each.when]} and {code} are both for the case {each.when}")
            if unfit := [name for name in each.headers if not is_header_name(name)]:
                raise ValueError(f"expected the name of a header, got {unfit[0]!r}")
        try:
            self.write("", "", "", status=500)
        except (TypeError, AttributeError):
            raise ValueError("expected pointers to different values as code, message and request_id") from None

    def code_of(self, case: ErrorCase) -> str | None:
        """Return the code for a case; None if the contract has none."""
        return self._cases.get(case)

    def write(
        self,
        code: str,
        message: str | None,
        request_id: str,
        *,
        values: Mapping[str, object] | None = None,
        fields: Mapping[str, Any] | None = None,
        status: int | None = None,
    ) -> ErrorDocument:
        """Return an error with a code, which need not be one of the contract's if its `status` is given.

        `values` replace placeholders, and `fields` those of the contract.
        """
        table = self.codes.get(code) or CodeTable(status or 0)
        values, given = dict(values or {}), fields or {}
        filled: dict[str, Any] = {}
        for name, template in {**table.fields, **given}.items():
            filled[name] = template if name in given else fill(template, values)
            if len(str(filled[name])) <= _LONGEST_VALUE:
                values[name] = filled[name]
        text = fill(table.message, values) or code
        if message is not None:
            facts = [values.get(found[2], found[3]) for found in _PLACEHOLDER.finditer(table.message)]
            # What its text states is for clients, so another text has to state it, too.
            text = message if all(str(fact) in message for fact in facts if fact is not None) else f"{message} {text}"
        document: dict[str, Any] = {}
        for name, value in (("code", code), ("message", text), ("request_id", request_id)):
            if name in self._pointers:
                set_value(document, self._pointers[name].steps, value)
        for name, value in filled.items():
            set_value(document, [*Pointer(self._fields).steps, name] if self._fields else [name], value)
        headers = tuple((name, str(fill(value, values))) for name, value in table.headers.items())
        return ErrorDocument(status or table.status, document, headers)


class ServiceTerms(Struct, frozen=True):
    """What a contract says about its service apart from streams."""

    keep_alive_s: float = DEFAULT_KEEP_ALIVE_S
    """The interval of keep-alive comments on an open stream."""
    errors: ErrorWriter | None = None
    """None if errors are plain text."""
    limits: Mapping[str, Limit] = field(default_factory=dict)
    counts: Mapping[str, str] = field(default_factory=dict)
    """Requests, and the limit that they count towards."""
    scopes: Mapping[str, str] = field(default_factory=dict)
    """Requests, and the scope that they need."""
    has_other_types: bool = True
    """Whether there may be events of types that the contract does not name."""
    workspace: Pointer | None = None
    """Where events name the workspace that their channel belongs to."""
    key_rules: tuple[str, ...] = ()
    """The beginnings of the codes of rules that apply only where requests need a key."""
    client_ids: tuple[str, ...] = ()
    """JSON paths of what clients make up in the bodies of requests."""


def read_limits(tables: Mapping[str, LimitTable]) -> tuple[dict[str, Limit], dict[str, str]]:
    """Return the limits, and which of them requests count towards."""
    limits = {name: Limit(table.requests, table.seconds) for name, table in tables.items()}
    return limits, dict(_by_request({name: table.counts for name, table in tables.items()}))


def read_scopes(scopes: Mapping[str, Any]) -> dict[str, str]:
    """Return the scope that requests need."""
    return dict(_by_request(scopes))


def _by_request(requests: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    return ((request, name) for name, each in requests.items() for request in list_of(each))


def fill(template: Any, values: Mapping[str, object]) -> Any:
    """Return JSON in which `{name}` is replaced by a value, or by what follows `|` if there is none.

    A value in a path is percent-encoded.  One that is a whole text keeps its type, and is left out of an object if
    there is none.
    """
    if isinstance(template, dict):
        items = ((key, fill(value, values)) for key, value in template.items())
        return {key: value for key, value in items if value is not None}
    if isinstance(template, list):
        return [fill(each, values) for each in template]
    if not isinstance(template, str):
        return template
    if (whole := _PLACEHOLDER.fullmatch(template)) and not whole[1]:
        return values.get(whole[2], whole[3])

    def replaced(found: re.Match[str]) -> str:
        value = str(values.get(found[2], found[3] or ""))
        return f"/{quote(value, safe='')}" if found[1] else value

    return _PLACEHOLDER.sub(replaced, template)
