"""Primitives about requests and responses: error and header."""

from typing import Any

from wiretape.contract.contract_tables import ErrorTable, HeaderTable
from wiretape.contract.contract_traffic import ContractExchange
from wiretape.contract.primitive import Primitive
from wiretape.observations import header, is_header_name
from wiretape.patterns import MISSING, Globs, Pointer, list_of
from wiretape.rules.catalogue import ERROR_RESPONSE, HELD, REQUEST, RESPONSE, Check, Need, Outcome, Problem, problem
from wiretape.rules.finding import Party, describe, quote, quote_or_none
from wiretape.rules.state.response_body import ErrorBody


class ErrorEnvelope(Primitive):
    """A response with a status of 400 or above is a JSON object with these fields, and its code has this status."""

    summary = "An error response lacks a field, or has a code that does not exist or has another status."

    def __init__(self, table: ErrorTable) -> None:
        """Raises ValueError."""
        self.required = tuple(map(Pointer, list_of(table.require)))
        self.code = None if table.code is None else Pointer(table.code)
        self.codes = table.codes
        """The statuses by code; None if any code is allowed."""

    def checks(self) -> tuple[Check[Any], ...]:
        """Return its functions."""
        return (Check(ERROR_RESPONSE, self.check, needs=Need.WHOLE_BODY),)

    def check(self, body: ErrorBody, _exchange: ContractExchange) -> Outcome:
        """Check the body of an error response."""
        if type(body.document) is not dict:
            return problem("Expected a JSON object as the body of the error, got something else.")
        missing = [pointer for pointer in self.required if pointer.read(body.document) is MISSING]
        problems = [Problem(f"Expected `{pointer}`, got none.", subject=pointer.text) for pointer in missing]
        code = MISSING if self.code is None else self.code.read(body.document)
        if self.codes is not None and code is not MISSING and (code_problem := self._find_problem(code, body)):
            problems.append(Problem(code_problem, subject="code"))
        return problems or HELD

    def _find_problem(self, code: object, body: ErrorBody) -> str:
        codes = self.codes or {}
        if type(code) is not str or code not in codes:
            return f"Expected `{self.code}` to be a code of the contract, got {describe(code)}."
        status = body.response.status
        return "" if codes[code] == status else f"Expected the status {codes[code]} with {quote(code)}, got {status}."


class HeaderValue(Primitive):
    """A header is there, matches a glob, and agrees with a value in the body of an error."""

    summary = "The header `{0.name}` of a {0.of} is missing or not as it has to be."

    def __init__(self, table: HeaderTable) -> None:
        """Raises ValueError."""
        if not is_header_name(table.name):
            raise ValueError(f"expected the name of a header, got {table.name!r}")
        if table.agrees is not None and (table.of == "request" or table.value is not None):
            raise ValueError("agrees is for responses, and without value")
        self.name, self.of, self.statuses = table.name, table.of, table.statuses
        self.value = None if table.value is None else Globs(table.value)
        self.agrees = None if table.agrees is None else Pointer(table.agrees)

    @property
    def side(self) -> Party:
        """Who sends it."""
        return Party.CLIENT if self.of == "request" else Party.SERVICE

    def checks(self) -> tuple[Check[Any], ...]:
        """Return its functions."""
        if self.agrees is not None:
            return (Check(ERROR_RESPONSE, self.check_agreement, needs=Need.WHOLE_BODY),)
        return (Check(REQUEST if self.of == "request" else RESPONSE, self.check),)

    def check(self, exchange: ContractExchange) -> Outcome:
        """Check the header of a request or a response."""
        message = exchange.request if self.of == "request" or exchange.response is None else exchange.response
        if self.of == "response" and exchange.response is not None and not self._concerns(exchange.response.status):
            return None
        if exchange.request.is_invented:
            return None  # so is the response, or its headers
        got = header(message.headers, self.name)
        if got is not None and (self.value is None or self.value.matches(got)):
            return HELD
        wanted = f"the header `{self.name}`" + (f" to be {self.value}" if self.value else "")
        return problem(f"Expected {wanted}, got {quote_or_none(got)}.")

    def check_agreement(self, body: ErrorBody, _exchange: ContractExchange) -> Outcome:
        """Compare the header of an error response with its body."""
        if self.agrees is None or not self._concerns(body.response.status) or type(body.document) is not dict:
            return None
        expected = self.agrees.read(body.document)
        if type(expected) not in {str, int}:
            return None
        got = header(body.response.headers, self.name)
        if got == str(expected):
            return HELD
        return problem(f"Expected the header `{self.name}` to be {quote(str(expected))}, got {quote_or_none(got)}.")

    def _concerns(self, status: int) -> bool:
        return not self.statuses or status in self.statuses
