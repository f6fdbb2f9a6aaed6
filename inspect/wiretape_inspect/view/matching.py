"""What a filter takes: messages, other rows of streams, and exchanges that are no stream.  Pure."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import assert_never

from wiretape.frame_reader import SeenFrame
from wiretape.recording import Exchange
from wiretape.rules import Finding
from wiretape_inspect.facts import Facts
from wiretape_inspect.view.conditions import Filter, Regex, Term, Text, Value
from wiretape_inspect.view.patterns import SEARCHED, glob
from wiretape_inspect.view.ranges import Range
from wiretape_inspect.view.rows import CutRow, DeltaRow, EndRow, EventRow, LostRow, OversizedRow, PauseRow, StreamRow


def _no_texts() -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class Subject:
    """Something that a filter takes or not.  What it does not have is None, and no condition on it is met."""

    kinds: tuple[str, ...]
    exchange: int
    session: str | None
    run: str | None = None
    event: int | None = None
    sequence: int | None = None
    type: str | None = None
    id: str | None = None
    tool: str | None = None
    gap_ns: int | None = None
    codes: tuple[str, ...] = ()
    """Of its findings."""
    texts: Callable[[], tuple[str, ...]] = _no_texts


Take = Callable[[Subject], bool]


def taker(whole: Filter) -> Take | None:
    """The function that says whether a subject is taken; None where everything is."""
    if not whole.groups:
        return None
    groups = [[_condition(term) for term in group] for group in whole.groups]
    return lambda subject: any(all(meets(subject) for meets in group) for group in groups)


def may_take_exchange(whole: Filter, exchange: Exchange) -> bool:
    """Whether anything of an exchange can be taken, by what its head says: it need not be read where not."""
    head = Subject((), exchange.number, exchange.session_id)
    known = {"exchange", "session"}
    groups = [[_condition(term) for term in group if term.field in known] for group in whole.groups]
    return not groups or any(all(meets(head) for meets in group) for group in groups)


def of_message(exchange: Exchange, seen: SeenFrame, facts: Facts, gap_ns: int, findings: Iterable[Finding]) -> Subject:
    """A message of a stream."""
    return Subject(
        kinds=("message", facts.standing),
        exchange=exchange.number,
        session=exchange.session_id,
        run=facts.run_id,
        event=seen.event,
        sequence=facts.sequence,
        type=facts.type,
        id=facts.id,
        tool=facts.tool_call_id,
        gap_ns=gap_ns,
        codes=_codes(findings),
        texts=lambda: (seen.frame.data.decode("utf-8", "replace"), facts.text),
    )


def of_request(exchange: Exchange, previews: Iterable[str], findings: Iterable[Finding]) -> Subject:
    """An exchange that is no stream; its texts are the request line, and how its bodies begin."""
    texts = (f"{exchange.request.method} {exchange.request.target}", *previews)
    return Subject(
        ("request",),
        exchange.number,
        exchange.session_id,
        run=exchange.run_id,
        codes=_codes(findings),
        texts=lambda: texts,
    )


def of_finding(found: Finding) -> Subject:
    """A finding by itself, as it stands where events are shown before it is known what is wrong with them."""
    texts = (found.message,)
    return Subject(
        (),
        found.exchange,
        None,
        event=found.event,
        sequence=found.sequence,
        codes=(found.code,),
        texts=lambda: texts,
    )


def of_row(exchange: Exchange, row: StreamRow) -> Subject:
    """A row of a stream that is no message."""
    kinds, gap_ns, text = _about(row)
    findings = () if isinstance(row, DeltaRow) else row.findings
    return Subject(
        kinds,
        exchange.number,
        exchange.session_id,
        gap_ns=gap_ns,
        codes=_codes(findings),
        texts=lambda: (text,),
    )


def _about(row: StreamRow) -> tuple[tuple[str, ...], int | None, str]:
    """The kinds, the gap and the text of a row."""
    match row:
        case PauseRow():
            kinds = (("pause",) if row.gap else ()) + (("comment",) if row.keep_alives else ())
            return kinds, row.until_ns - row.time_ns, row.comment
        case CutRow():
            return ("cut",), None, row.preview
        case OversizedRow():
            return ("oversized",), None, row.preview
        case LostRow():
            return ("lost",), None, row.why
        case EndRow():
            return ("end",), row.gap_ns, f"{row.words} {row.detail}"
        case EventRow() | DeltaRow():
            return ("message",), row.gap_ns, row.preview
        case _:
            assert_never(row)


def _codes(findings: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(finding.code for finding in findings)


def _condition(term: Term) -> Take:
    """The function that says whether one term is met."""
    tests = [_test(term.field, value) for value in term.values]
    if term.negated:
        return lambda subject: not any(test(subject) for test in tests)
    return lambda subject: any(test(subject) for test in tests)


def _test(field: str, value: Value) -> Take:
    match value:
        case Range():
            return _in_range(field, value)
        case Regex(pattern):
            compiled = re.compile(pattern)
            return lambda subject: any(compiled.search(text[:SEARCHED]) for text in subject.texts())
        case Text(text, literal):
            if field == "text":
                wanted = text.casefold()
                return lambda subject: any(wanted in said.casefold() for said in subject.texts())
            if field == "kind":
                return lambda subject: text in subject.kinds
            return _like(field, text, literal=literal)


def _in_range(field: str, wanted: Range) -> Take:
    def test(subject: Subject) -> bool:
        number = _NUMBER[field](subject)
        return number is not None and wanted.holds(number)

    return test


_NUMBER: dict[str, Callable[[Subject], int | None]] = {
    "seq": lambda subject: subject.sequence,
    "event": lambda subject: subject.event,
    "exchange": lambda subject: subject.exchange,
    "gap": lambda subject: subject.gap_ns,
}


def _like(field: str, text: str, *, literal: bool) -> Take:
    """Whether a field is like a pattern; codes of rules in capitals or not."""
    ignore_case = field == "rule"
    pattern = glob(text, literal=literal, ignore_case=ignore_case)
    names = _NAMES[field]
    return lambda subject: any(name is not None and pattern.fullmatch(name) for name in names(subject))


_NAMES: dict[str, Callable[[Subject], tuple[str | None, ...]]] = {
    "type": lambda subject: (subject.type,),
    "id": lambda subject: (subject.id,),
    "rule": lambda subject: subject.codes,
    "run": lambda subject: (subject.run,),
    "tool": lambda subject: (subject.tool,),
    "session": lambda subject: (subject.session,),
}
