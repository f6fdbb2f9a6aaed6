"""Primitives about requests and responses: error, header and request_body."""

from collections.abc import Callable, Iterator, Sequence
from http import HTTPStatus
from itertools import islice
from typing import Any
from urllib.parse import unquote_plus

from wiretape.contract.contract_stream import ContractExchange
from wiretape.contract.contract_tables import ErrorAspect, ErrorTable, HeaderTable, RefusedTable
from wiretape.contract.json_schema import JsonSchema
from wiretape.contract.json_types import AllowedValues, RequiredFields
from wiretape.contract.primitive import LARGE_DATA, UNKNOWN_REQUEST, Primitive, SeenValues
from wiretape.contract.service_terms import ErrorFormat
from wiretape.credential_names import CREDENTIAL_PARAMETERS, is_parameter
from wiretape.event_format import shorten_value
from wiretape.http_headers import is_preflight
from wiretape.json_codec import UnreadableJson
from wiretape.observations import Headers, header, is_header_name
from wiretape.patterns import MISSING, Globs, Pointer, list_of
from wiretape.rules.catalogue import (
    COMPLEX_JSON,
    DROPPED_STATE,
    ERROR_RESPONSE,
    HELD,
    INCOMPLETE_BODY,
    REQUEST,
    RESPONSE,
    STREAM_RESPONSE,
    Check,
    Inconclusive,
    Need,
    Outcome,
    Problem,
    mismatch,
)
from wiretape.rules.exchange import Exchange
from wiretape.rules.finding import Party, describe, quote, quote_or_none
from wiretape.rules.response_body import ResponseBody
from wiretape.rules.wording import Reader

_LONGEST_NUMBER = 1000
_MOST_FIELDS = 200


class HttpPrimitive(Primitive):
    """A primitive about requests or responses; its words can also name fields in the body of an error."""

    def reader_of(self, name: str) -> Reader:
        """Return what reads a value for its words."""
        if not name.startswith("/"):
            return super().reader_of(name)
        pointer = Pointer(name)
        return lambda values: pointer.read(values.get("body"))


class RequestBody(Primitive):
    """The body of a request for a stream is JSON that matches a schema."""

    summary = "The body of a request for a stream does not match its JSON schema."

    def __init__(self, schema: JsonSchema) -> None:
        self._schema = schema

    @property
    def side(self) -> Party:
        """The client breaks it."""
        return Party.CLIENT

    def checks(self) -> tuple[Check[Any], ...]:
        """Return its function."""
        return (Check(STREAM_RESPONSE, self.check),)

    def check(self, exchange: ContractExchange) -> Outcome:
        """Validate the body of the request that a stream answers."""
        document = exchange.request_json
        if document is MISSING:
            return None if exchange.request.is_invented else UNKNOWN_REQUEST
        if document is UnreadableJson.TOO_COMPLEX:
            return COMPLEX_JSON
        if isinstance(document, UnreadableJson):
            return [mismatch("JSON as the body of the request", "text that is not JSON")]
        if not self._schema.is_quick(exchange.request_size):
            return LARGE_DATA
        return [Problem(each, subject=each) for each in self._schema.find_violations(document)]


class ErrorEnvelope(HttpPrimitive):
    """The body of a response with a status of 400 or above is as the contract says."""

    summary = "An error is not an object, lacks a field, or has a code that does not exist or has another status."
    placeholders = ("status", "code", "other_case", "name", "wanted", "value")

    def __init__(self, table: ErrorTable, errors: ErrorFormat) -> None:
        """Raises ValueError."""
        self._aspects, self._keys = frozenset(map(ErrorAspect, list_of(table.aspects))), list_of(table.keys)
        self._require = RequiredFields(table.require)
        allowed, unique = table.one_of, table.unique
        self._allowed = (
            None if allowed is None else AllowedValues([*map(Pointer, list_of(allowed.fact))], allowed.values)
        )
        self._unique = None if unique is None else Pointer(unique)
        if not (self._aspects or self._keys or self._require or self._allowed or self._unique):
            raise ValueError("expected at least one of aspects, require, keys, one_of and unique")
        if table.codes or table.other_codes or not self._aspects <= {ErrorAspect.OBJECT}:
            errors.require_code(codes=not self._aspects <= {ErrorAspect.OBJECT})
        self._codes, self._other_codes, self._errors = frozenset(table.codes), frozenset(table.other_codes), errors
        self._having = tuple(map(Pointer, list_of(table.having)))
        self._folded = {code.casefold(): code for code in errors.codes}

    def checks(self) -> tuple[Check[Any], ...]:
        """Return its functions."""
        return (Check(ERROR_RESPONSE, self.check, needs=Need.WHOLE_BODY),)

    def check(self, body: ResponseBody, exchange: Exchange) -> Outcome:
        """Check the body of an error response."""
        document, status = body.document, int(body.response.status)
        fields, code = self._errors.find_object(document), self._errors.read_code(document)
        if (self._codes and code not in self._codes) or code in self._other_codes:
            return None
        if any(pointer.read(document) is MISSING for pointer in self._having):
            return None
        if fields is None and ErrorAspect.OBJECT not in self._aspects:
            return None
        if document is UnreadableJson.TOO_COMPLEX:
            return COMPLEX_JSON
        values = {"body": document, "status": status, "code": code}
        if fields is None:
            return [self._report_object(body, values)]
        outcomes = (
            [*self._check_fields(document, values)] if self._require or self._keys else None,
            self._check_code(code, status, values),
            self._allowed and self._allowed.check(document, **values),
            self._unique and self._check_unique(self._unique, exchange, values),
        )
        is_certain = ErrorAspect.OBJECT in self._aspects or any(isinstance(each, Sequence) for each in outcomes)
        undecided = next((each for each in outcomes if isinstance(each, Inconclusive)), None)
        problems = [problem for each in outcomes if isinstance(each, Sequence) for problem in each]
        return problems or undecided or (HELD if is_certain else None)

    def _check_unique(self, pointer: Pointer, exchange: Exchange, values: dict[str, Any]) -> Outcome:
        """Compare a text with those of the other errors of the same service."""
        value = pointer.read(values["body"])
        if type(value) is not str:
            return None
        seen = exchange.traffic.memory.get(self, SeenValues)
        is_first = seen.add(exchange.place, exchange.number) is None
        first = seen.add((exchange.place, shorten_value(value)), exchange.number)
        if first is None:
            return DROPPED_STATE if seen.may_lack_some else None if is_first else HELD
        expected, got = f"a new `{pointer.name}`", f"{quote(value)}, which exchange {first} already has"
        return [mismatch(expected, got, **values, value=value)]

    def _check_fields(self, document: Any, values: dict[str, Any]) -> Iterator[Problem]:
        for name, wanted, value in islice(self._require.find_unfit(document), _MOST_FIELDS):
            more = values | {"name": name, "wanted": wanted, "value": value}
            yield mismatch(f"`{name}` to be {wanted}", describe(value), subject=name, **more)
        for key in (key for key in document if self._keys and key not in self._keys):
            only = " and ".join(f"`{each}`" for each in self._keys)
            yield mismatch(f"no key besides {only}", quote(key), subject=key, **values, value=key)

    def _check_code(self, code: str | None, status: int, values: dict[str, Any]) -> Outcome:
        wanted = self._errors.codes.get(code or "")
        if code is None or (wanted is None and ErrorAspect.CODE not in self._aspects):
            return None
        if wanted is None:
            right = self._folded.get(code.casefold())
            expected = "a code of the contract" if right is None else f"the code {quote(right)}"
            got = quote(code) + ("" if right is None else ", which differs in case")
            return [mismatch(expected, got, subject="code", **values, other_case=right)]
        if ErrorAspect.STATUS in self._aspects and wanted != status:
            expected = f"the status {wanted} with {quote(code)}"
            return [mismatch(expected, f"{status}", subject="code", **values, wanted=wanted)]
        return HELD if self._aspects & {ErrorAspect.CODE, ErrorAspect.STATUS} else None

    def _report_object(self, body: ResponseBody, values: dict[str, Any]) -> Problem:
        """Report a body without the object that has the fields of an error."""
        document, pointer = body.document, self._errors.object
        if body.is_empty:
            got = "an empty body"
        elif document is UnreadableJson.NOT_JSON:
            got = "a body that is not JSON"
        elif document is UnreadableJson.NOT_AN_OBJECT:
            got = "a body that does not begin with `{`"
        elif type(document) is not dict or pointer is None:
            got = describe(document)
        else:
            value, name = pointer.read(document), f"`{pointer.name}`"
            got = f"an object without {name}" if value is MISSING else f"{describe(value)} under {name}"
        under = "" if pointer is None else f" with an object under `{pointer.name}`"
        return mismatch(f"a JSON object{under}", got, **values)


class NoParameter(HttpPrimitive):
    """The query of a request has no parameter with one of these names, or no credential."""

    summary = "A parameter in the URL of a request has a name that is not allowed there."
    placeholders = ("name",)
    side = Party.CLIENT

    def __init__(self, names: str | Sequence[str]) -> None:
        self._names = CREDENTIAL_PARAMETERS if names == "credentials" else list_of(names)

    def checks(self) -> tuple[Check[Any], ...]:
        """Return its function."""
        return (Check(REQUEST, self.check),)

    def check(self, exchange: Exchange) -> Outcome:
        """Check the parameters that have a value."""
        _, mark, query = exchange.request.target.partition("#")[0].partition("?")
        if not mark:
            return None
        pairs = (pair.partition("=") for pair in query.split("&"))
        names = [unquote_plus(name) for name, _, value in pairs if value]
        found = [name for name in names if is_parameter(name, self._names)]
        if not found:
            return HELD
        return [mismatch("no such parameter in the URL", f"the parameter {quote(found[0])}", name=found[0])]


class HeaderValue(HttpPrimitive):
    """A header is there, matches a glob, and agrees with a value in the body of an error.

    If `refused` says so, requests without it get an error.
    """

    placeholders = ("value", "wanted", "status", "code")

    def __init__(self, table: HeaderTable, errors: ErrorFormat) -> None:
        """Raises ValueError."""
        if not is_header_name(table.name):
            raise ValueError(f"expected the name of a header, got {table.name!r}")
        if table.codes:
            errors.require_code()
        self.name, self.of = table.name, table.of
        self._statuses, self._codes, self._errors = frozenset(table.statuses), frozenset(table.codes), errors
        self._normal = _NORMAL_FORMS.get(table.name.lower(), str.strip)
        self._value = None if table.value is None else Globs(table.value)
        self._normal_value = None if table.value is None else Globs(map(self._normal, list_of(table.value)))
        self._is_integer = table.type == "integer"
        self._agrees = None if table.agrees is None else Pointer(table.agrees)
        self._refused = RefusedTable() if table.refused is True else table.refused or None

    def describe(self) -> str:
        """Return what breaks it."""
        if self._refused is not None:
            return f"A request without the header `{self.name}` is not refused as required."
        whose = "an error" if self.of == "error" else f"a {self.of}"
        return f"The header `{self.name}` of {whose} is missing or has the wrong value."

    @property
    def side(self) -> Party:
        """Who sends it."""
        return Party.CLIENT if self.of == "request" and self._refused is None else Party.SERVICE

    def checks(self) -> tuple[Check[Any], ...]:
        """Return its functions."""
        if self._refused is not None:
            accepted = Check(RESPONSE, self.check_accepted)
            if self._refused.status is None:
                return (accepted,)
            return (accepted, Check(ERROR_RESPONSE, self.check_refusal))
        if self.of == "request":
            return (Check(REQUEST, self.check_request),)
        if self.of == "error" or self._codes or self._agrees is not None:
            return (Check(ERROR_RESPONSE, self.check_error),)
        return (Check(RESPONSE, self.check_response),)

    def check_request(self, exchange: Exchange) -> Outcome:
        """Check the header of a request."""
        return None if _needs_no_header(exchange) else self._check(exchange.request.headers)

    def check_response(self, exchange: Exchange) -> Outcome:
        """Check the header of a response; one that an import invented has none."""
        response = exchange.response
        if response is None or exchange.request.is_invented:
            return None
        if self._statuses and response.status not in self._statuses:
            return None
        return self._check(response.headers, status=int(response.status))

    def check_error(self, body: ResponseBody, _exchange: Exchange) -> Outcome:
        """Check the header of an error response, and compare it with the body."""
        response, document = body.response, body.document
        is_chosen = response.status in self._statuses
        if not is_chosen and self._statuses and not self._codes:
            return None
        reads_body = self._agrees is not None or self.of == "error" or (self._codes and not is_chosen)
        if reads_body and not body.is_whole:
            return INCOMPLETE_BODY
        code = self._errors.read_code(document)
        if self._codes and not is_chosen and code not in self._codes:
            return None
        if self.of == "error" and self._errors.find_object(document) is None:
            return None
        values = {"status": int(response.status), "code": code, "body": document}
        return self._check(response.headers, **values) if self._agrees is None else self._compare(body, values)

    def check_accepted(self, exchange: Exchange) -> Outcome:
        """Report a response to a request without the header that is not an error."""
        response, refused = exchange.response, self._refused
        if response is None or refused is None or not self._is_lacking(exchange):
            return None
        if response.status >= HTTPStatus.BAD_REQUEST:
            return HELD if refused.status is None else None
        return self._misanswer(refused, int(response.status), "accepted")

    def check_refusal(self, body: ResponseBody, exchange: Exchange) -> Outcome:
        """Report an error with another status or code."""
        status, refused = int(body.response.status), self._refused
        if refused is None or not self._is_lacking(exchange):
            return None
        code = self._errors.read_code(body.document) if body.is_whole else None
        if status != refused.status:
            return self._misanswer(refused, status, code, code)
        if refused.code in {None, code}:
            return HELD
        if not body.is_whole:
            return INCOMPLETE_BODY
        return None if code is None else self._misanswer(refused, status, code, code)

    def _misanswer(self, refused: RefusedTable, status: int, subject: str | None, code: str | None = None) -> Outcome:
        wanted = "an error" if refused.status is None else f"the status {refused.status}"
        wanted += "" if refused.code is None else f" with {quote(refused.code)}"
        got = f"the status {status}" + ("" if code is None else f" with {quote(code)}")
        expected = f"{wanted} for a request without the header `{self.name}`"
        return [mismatch(expected, got, subject=subject, status=status, code=code)]

    def _is_lacking(self, exchange: Exchange) -> bool:
        return not _needs_no_header(exchange) and not any(map(self._is_fit, self._values(exchange.request.headers)))

    def _values(self, headers: Headers) -> list[str]:
        lower = self.name.lower()
        return [value for name, value in headers if name.lower() == lower]

    def _is_fit(self, value: str) -> bool:
        if self._is_integer and _read_number(value) is None:
            return False
        return self._normal_value is None or self._normal_value.matches(self._normal(value))

    def _check(self, headers: Headers, **others: Any) -> Outcome:
        values = self._values(headers)
        got = next(iter(values), None)
        # One of several fits for requests, but of those of a response, clients read the first.
        if any(map(self._is_fit, values if self.of == "request" else values[:1])):
            return HELD
        to_be = " to be whole digits" if self._is_integer else f" to be {self._value}" if self._value else ""
        return [mismatch(f"the header `{self.name}`{to_be}", quote_or_none(got), **others, value=got)]

    def _compare(self, body: ResponseBody, values: dict[str, Any]) -> Outcome:
        wanted = MISSING if self._agrees is None else self._agrees.read(body.document)
        text = header(body.response.headers, self.name)
        got = _read_number(text or "") if self._is_integer else text
        if type(wanted) is not int and (self._is_integer or type(wanted) is not str):
            return None
        if self._is_integer and got is None:
            return None
        if got == (wanted if self._is_integer else str(wanted)):
            return HELD
        expected = f"the header `{self.name}` to be {quote(str(wanted))}"
        return [mismatch(expected, quote_or_none(text), **values, wanted=wanted, value=got)]


def _needs_no_header(exchange: Exchange) -> bool:
    """Whether a request has no headers of its client: an import invented it, or it is a CORS preflight."""
    request = exchange.request
    return request.is_invented or is_preflight(request.method, request.headers)


def _read_number(value: str) -> int | None:
    """Return the whole number in a header, in ASCII digits; None if it is something else."""
    digits = value.strip()
    return int(digits) if len(digits) < _LONGEST_NUMBER and digits.isascii() and digits.isdecimal() else None


def _credentials(value: str) -> str:
    """Return credentials with their scheme in lower case (RFC 9110)."""
    scheme, _, rest = value.strip().partition(" ")
    return f"{scheme.lower()} {rest.strip()}".strip()


_NORMAL_FORMS: dict[str, Callable[[str], str]] = {
    "authorization": _credentials,
    "content-type": lambda value: value.partition(";")[0].strip().lower(),
}
"""How values are compared with globs, by the name of the header; those of others are stripped."""
