"""Filters: parse a filter text into conditions, and apply them to messages, other rows, and requests.

filter    = group { "or" group }
group     = condition { condition }                     all of them must match
condition = ["-"] [field ":"] value { "," value }       one value must match; the default field is `text`
value     = word | "quoted"

`filter_grammar.js`, `filter_match.js` and `joined_text_search.js` of the page do the same; tests/inspect/filters.json
holds the cases that both implementations must pass.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import accumulate
from operator import attrgetter
from typing import Any, Literal

from msgspec import Struct, field

from wiretape.contract.vocabulary import CHANNEL, Vocabulary, all_fields
from wiretape.errors import InputError
from wiretape.event import Event, TimedFrame
from wiretape.recording import Exchange
from wiretape.rules import Finding
from wiretape.safe_text import closest_match, shorten
from wiretape.sse import FrameKind
from wiretape.units import parse_duration
from wiretape_inspect.view.timeline_rows import (
    CutRow,
    DeltaRow,
    EndRow,
    EventRow,
    Keys,
    LostRow,
    OversizedRow,
    PauseRow,
    StreamRow,
)

NUMBER_FIELDS = ("seq", "event", "exchange", "status")
KINDS = (
    "message",
    "durable",
    "delta",
    "ephemeral",
    "comment",
    "pause",
    "cut",
    "oversized",
    "lost",
    "end",
    "request",
)
"""The values of `kind`: a `message` is also one of the three kinds after it; a `request` is not a stream."""
_MOST_HELD = 1000
"""Frames that are held back while a text of a filter may continue after them."""
_SPACE = " \t\n\r\f\v"
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "t": "\t", "r": "\r"}
_ESCAPE = re.compile(r'\\(["\\ntr])')
_SPACES = re.compile(rf"[{_SPACE}]*")
_OR = re.compile(rf"or(?=[{_SPACE}]|\Z)")
_MINUS, _COMMA, _QUOTE = re.compile("-"), re.compile(","), re.compile('"')
_FIELD = re.compile(rf'([^{_SPACE},":/]*):')
_WORD = re.compile(rf'[^{_SPACE}",]+')
_QUOTED = re.compile(r'"((?:[^"\\]|\\["\\ntr])*+)')
_NUMBER = re.compile(r"-?\d{1,25}", re.ASCII)
_STATUS_CLASS = re.compile(r"([1-5])xx")
_COMPARISON = re.compile(r"(>=|<=|>|<)(.*)", re.DOTALL)
_Unit = Literal["number", "duration"]


class Text(Struct, frozen=True):
    """A word or a quoted text.  In quotes, `*` and `?` have no special meaning."""

    text: str
    quoted: bool = False


class Range(Struct, frozen=True):
    """A range of numbers, or of nanoseconds.  Both ends are included; None is an open end."""

    low: int | None = None
    high: int | None = None

    def __contains__(self, number: int) -> bool:
        return (self.low is None or self.low <= number) and (self.high is None or number <= self.high)


class Condition(Struct, frozen=True):
    """Matches if `field` has any of `values`; if `negated`, matches everything else."""

    field: str
    values: tuple[Text | Range, ...]
    negated: bool = False
    entities: tuple[str, ...] = ()
    """The entities whose keys are tested, if the field is the name of some."""


class Filter(Struct, frozen=True):
    """Matches if all conditions of any group match.  A filter without groups matches everything."""

    groups: tuple[tuple[Condition, ...], ...] = ()


EVERYTHING = Filter()


def filter_fields(vocabularies: Sequence[Vocabulary]) -> tuple[str, ...]:
    """Return the fields of filters for a recording whose contracts have these vocabularies.

    All but `kind`, the numbers and `gap` are patterns: `*` matches any text and `?` any character.
    """
    return ("type", "kind", "id", "rule", "method", *all_fields(vocabularies), *NUMBER_FIELDS, "gap", "text")


def parse_filter(text: str, vocabularies: Sequence[Vocabulary]) -> Filter:
    """Parse a filter for a recording.  Raises InputError with the position of the mistake."""
    return _Parser(text, vocabularies).parse()


class _Parser:
    """Recursive descent over the text, from left to right."""

    def __init__(self, text: str, vocabularies: Sequence[Vocabulary]) -> None:
        self._text = text
        self._at = 0
        self._fields = filter_fields(vocabularies)
        self._channels = {each.channel for each in vocabularies}
        self._entities: dict[str, tuple[str, ...]] = {}
        """The entities by the names that filters have for them."""
        for entity in (entity for each in vocabularies for entity in each.entities.values()):
            self._entities[entity.short] = (*self._entities.get(entity.short, ()), entity.name)

    def parse(self) -> Filter:
        groups: list[list[Condition]] = [[]]
        while self._take(_SPACES) and self._at < len(self._text):
            begin = self._at
            if not self._take(_OR):
                groups[-1].append(self._condition())
            elif groups[-1]:
                groups.append([])
            else:
                raise self._error(begin, "`or` needs a condition before it.")
        if len(groups) > 1 and not groups[-1]:
            raise self._error(len(self._text), "`or` needs a condition after it.")
        return Filter(tuple(tuple(group) for group in groups if group))

    def _condition(self) -> Condition:
        negated = self._take(_MINUS) is not None
        if negated and self._at_space():
            raise self._error(self._at - 1, "`-` needs a condition after it.")
        begin = self._at
        named = self._take(_FIELD)
        field = named[1] if named else "text"
        if field not in self._fields:
            raise self._error(begin, _unknown("field", field, self._fields))
        values = [self._value(field)]
        while self._take(_COMMA):
            values.append(self._value(field))
        if not self._at_space():
            raise self._error(self._at, f"expected a space after {shorten(self._text[begin : self._at])}.")
        entities = self._entities.get(field, ())
        if not entities and field in self._channels:
            field = CHANNEL
        return Condition(field, tuple(values), negated, entities)

    def _value(self, field: str) -> Text | Range:
        begin = self._at
        found = self._quoted()
        if found is None:
            word = self._take(_WORD)
            if word is None:
                raise self._error(begin, f"missing value for `{field}`.")
            found = Text(word.group())
        if field == "kind" and found.text not in KINDS:
            raise self._error(begin, _unknown("kind", found.text, KINDS))
        if field not in {*NUMBER_FIELDS, "gap"}:
            return found
        if field == "status" and (status := _STATUS_CLASS.fullmatch(found.text)):
            return Range(100 * int(status[1]), 100 * int(status[1]) + 99)
        try:
            return _range(found.text, "duration" if field == "gap" else "number")
        except ValueError as error:
            raise self._error(begin, f"invalid value '{shorten(found.text)}' for `{field}`: {error}.") from None

    def _quoted(self) -> Text | None:
        begin = self._at
        found = self._take(_QUOTED)
        if found is None:
            return None
        if self._text.startswith("\\", self._at):
            raise self._error(self._at, r"invalid escape: in quotes, use \\, \", \n, \t or \r.")
        if not self._take(_QUOTE):
            raise self._error(begin, "the closing quotation mark is missing.")
        return Text(_ESCAPE.sub(lambda escape: _ESCAPES[escape[1]], found[1]), quoted=True)

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Move behind the pattern, if it is here."""
        found = pattern.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return found

    def _at_space(self) -> bool:
        """Whether a space or the end is here."""
        return self._text[self._at : self._at + 1] in _SPACE

    def _error(self, at: int, problem: str) -> InputError:
        return InputError(f"Invalid filter at character {at + 1}: {problem}")


def _unknown(thing: str, name: str, known: Iterable[str]) -> str:
    guess = closest_match(name, known)
    hint = f"did you mean `{guess}`?" if guess else f"expected one of {', '.join(known)}."
    return f"unknown {thing} `{shorten(name)}`; {hint}"


def _range(text: str, unit: _Unit) -> Range:
    """Parse `7`, `40..60`, `..60`, `>1s` or `<=200ms`; a single duration means that long or longer."""
    comparison = _COMPARISON.fullmatch(text)
    if comparison is not None:
        sign, number = comparison[1], _number(comparison[2], unit)
        if unit == "duration" and (sign, number) == ("<", 0):
            raise ValueError("a duration cannot be less than zero")
        low = {">": number + 1, ">=": number}.get(sign)
        high = {"<": number - 1, "<=": number}.get(sign)
        return Range(low, high)
    if ".." not in text:
        number = _number(text, unit)
        return Range(number, None if unit == "duration" else number)
    begin, _, end = text.partition("..")
    low = _number(begin, unit) if begin else None
    high = _number(end, unit) if end else None
    if low is None and high is None:
        raise ValueError("expected a number before or after the two dots")
    if low is not None and high is not None and low > high:
        raise ValueError("the range ends before it begins")
    return Range(low, high)


def _number(text: str, unit: _Unit) -> int:
    if unit == "duration":
        return parse_duration(text)
    if _NUMBER.fullmatch(text) is None:
        raise ValueError("expected a number, a range such as 40..60, or >40")
    return int(text)


class Subject(Struct, frozen=True):
    """What a filter is applied to.  A condition on a field that is None does not match."""

    kinds: tuple[str, ...]
    exchange: int
    channel: str | None
    method: str | None = None
    status: int | None = None
    keys: Keys = field(default_factory=dict)
    """The keys of entities."""
    event: int | None = None
    sequence: int | None = None
    type: str | None = None
    id: str | None = None
    gap_ns: int | None = None
    codes: tuple[str, ...] = ()
    """The rule codes of its findings."""
    texts: Callable[[], tuple[str, ...]] = tuple
    found: AbstractSet[str] = frozenset()
    """The texts of the filter that it has a part of, in the joined text of deltas."""
    joined: AbstractSet[str] = frozenset()
    """The texts of the filter that are anywhere in that joined text."""


class CompiledFilter(Struct, frozen=True):
    """Returns whether a filter matches a subject."""

    test: Callable[[Subject], bool]
    wanted: tuple[str, ...] = ()
    """The texts of the filter that may run over several deltas, in lower case."""

    def __call__(self, subject: Subject) -> bool:
        """Whether the filter matches the subject."""
        return self.test(subject)


_Test = Callable[[Subject], bool]
_ATTRIBUTES = {"kind": "kinds", "rule": "codes", "seq": "sequence", "gap": "gap_ns"}
"""The attributes of a subject that are not called like the field."""


def compile_filter(filter_: Filter) -> CompiledFilter | None:
    """Return the function that applies a filter; None for a filter that matches everything."""
    if not filter_.groups:
        return None
    groups = [_group(group) for group in filter_.groups]
    return CompiledFilter(lambda subject: any(matches(subject) for matches in groups), _wanted(filter_))


def _wanted(filter_: Filter) -> tuple[str, ...]:
    """Return the texts of a filter, in lower case; one character is always within one delta."""
    texts = (
        value.text.lower()
        for group in filter_.groups
        for condition in group
        for value in condition.values
        if condition.field == "text" and isinstance(value, Text)
    )
    return tuple(dict.fromkeys(text for text in texts if len(text) > 1))


def may_match_exchange(filter_: Filter, exchange: Exchange) -> bool:
    """Whether the filter can match anything of an exchange.  If not, its body need not be read."""
    head = Subject((), exchange.number, exchange.channel, exchange.request.method)
    fields = {"exchange", CHANNEL, "method"}  # an exchange that is open may still have a status
    groups = [[_condition(one) for one in group if one.field in fields] for group in filter_.groups]
    return not groups or any(all(matches(head) for matches in group) for group in groups)


def request_subject(exchange: Exchange, previews: Iterable[str], findings: Iterable[Finding]) -> Subject:
    """Return an exchange that is not a stream as a subject, with its request line and the previews of its bodies."""
    texts = (f"{exchange.request.method} {exchange.request.target}", *previews)
    return Subject(
        ("request",),
        exchange.number,
        exchange.channel,
        exchange.request.method,
        _status(exchange),
        exchange.keys,
        codes=_codes(findings),
        texts=lambda: texts,
    )


def finding_subject(found: Finding) -> Subject:
    """Return a finding as a subject, for `--follow`, which prints findings after the rows they are about."""
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


def row_subject(exchange: Exchange, row: StreamRow, searched: "SearchedFrame | None" = None) -> Subject:
    """Return a row of a stream as a subject; `searched` is its frame."""
    codes = () if isinstance(row, DeltaRow) else _codes(row.findings)
    found, joined = (searched.found, searched.joined) if searched else (frozenset[str](), frozenset[str]())
    head = (exchange.number, exchange.channel, exchange.request.method, _status(exchange))
    if not isinstance(row, EventRow):
        kinds, gap_ns, text = _describe(row)
        return Subject(kinds, *head, gap_ns=gap_ns, codes=codes, texts=lambda: (text,), found=found)
    event = row.event
    return Subject(
        ("message", event.kind),
        *head,
        event.keys,
        event=event.number,
        sequence=event.sequence,
        type=event.type,
        id=event.id,
        gap_ns=row.gap_ns,
        codes=codes,
        texts=lambda: (event.data.decode("utf-8", "replace"), event.preview),
        found=found,
        joined=joined,
    )


def _describe(
    row: DeltaRow | PauseRow | CutRow | OversizedRow | LostRow | EndRow,
) -> tuple[tuple[str, ...], int | None, str]:
    """Return the kinds, the gap and the text of a row."""
    match row:
        case PauseRow():
            kinds = (("pause",) if row.is_gap else ()) + (("comment",) if row.keep_alives else ())
            return kinds, row.until_ns - row.time_ns, row.comment
        case CutRow():
            return ("cut",), None, row.preview
        case OversizedRow():
            return ("oversized",), None, row.preview
        case LostRow():
            return ("lost",), None, row.why
        case EndRow():
            return ("end",), row.gap_ns, f"{row.ending_label} {row.detail}"
        case DeltaRow():
            return ("message",), row.gap_ns, row.preview


def _status(exchange: Exchange) -> int | None:
    return exchange.response.status if exchange.response else None


def _codes(findings: Iterable[Finding]) -> tuple[str, ...]:
    return tuple(finding.code for finding in findings)


def _group(conditions: Sequence[Condition]) -> _Test:
    """Return the test that all conditions hold.

    Of several texts, a delta needs a part of one only: the others may be anywhere in the joined text.
    """
    texts = [each for each in conditions if each.field == "text" and not each.negated]
    if len(texts) < 2:
        tests = [_condition(each) for each in conditions]
        return lambda subject: all(test(subject) for test in tests)
    own = [_condition(each) for each in texts]
    joined = [_condition(each, is_joined=True) for each in texts]
    others = [_condition(each) for each in conditions if each not in texts]
    return lambda subject: (
        all(test(subject) for test in others)
        and any(test(subject) for test in own)
        and all(test(subject) for test in joined)
    )


def _condition(condition: Condition, *, is_joined: bool = False) -> _Test:
    tests = [_test(condition, value, is_joined=is_joined) for value in condition.values]
    return lambda subject: any(test(subject) for test in tests) is not condition.negated


def _test(condition: Condition, value: Text | Range, *, is_joined: bool = False) -> _Test:
    """Return the function that tests a field for one value; rule codes and methods match in upper or lower case.

    With `is_joined`, a text may be anywhere in the joined text that a delta belongs to.
    """
    field = condition.field
    matches: Callable[[Any], object]
    if isinstance(value, Range):
        matches = value.__contains__
    elif field == "text":
        wanted, found_in = value.text.lower(), attrgetter("joined" if is_joined else "found")
        return lambda subject: wanted in found_in(subject) or any(wanted in text.lower() for text in subject.texts())
    elif field == "kind":
        matches = value.text.__eq__
    else:
        matches = compile_pattern(value, ignore_case=field in {"rule", "method"}).fullmatch
    value_of: Callable[[Subject], Any]
    if condition.entities:
        value_of = lambda subject: tuple(key for name in condition.entities if (key := subject.keys.get(name)))  # noqa: E731
    else:
        value_of = attrgetter(_ATTRIBUTES.get(field, field))

    def test(subject: Subject) -> bool:
        found = value_of(subject)
        return any(map(matches, found if isinstance(found, tuple) else () if found is None else (found,)))

    return test


def compile_pattern(value: Text, *, ignore_case: bool = False) -> re.Pattern[str]:
    """Compile a value for `fullmatch`: `*` matches any text and `?` any character, unless the value is quoted."""
    flags = re.DOTALL | (re.IGNORECASE if ignore_case else 0)
    if value.quoted:
        return re.compile(re.escape(value.text), flags)
    first, *others = (".".join(map(re.escape, part.split("?"))) for part in re.split(r"\*+", value.text))
    pattern = first
    if others:
        # Atomic groups keep the first match of each part, so matching takes linear time.
        pattern += "".join(f"(?>.*?{part})" for part in others[:-1]) + f".*{others[-1]}"
    return re.compile(pattern, flags)


class SearchedFrame(Struct):
    """A frame, its part of the joined text, and the texts of the filter that it has a part of."""

    seen: TimedFrame
    text: str = ""
    found: set[str] = field(default_factory=set)
    joined: set[str] = field(default_factory=set)
    """The texts of the filter in the whole joined text, as far as it was searched."""


class JoinedTextSearch:
    """Finds the texts of a filter in the joined text of consecutive deltas of the same type and entities.

    Only events interrupt them: not pauses, and not findings.  Frames are held back until the deltas end.
    """

    def __init__(self, wanted: Iterable[str]) -> None:
        """`wanted` are texts in lower case."""
        self.wanted = tuple(wanted)
        self._overlap = max(map(len, self.wanted), default=1) - 1
        """Characters at the end of which a text may begin."""
        self._key: tuple[str, Keys] | None = None
        self._before = ""
        """The end of the joined text of the deltas that were released."""
        self._joined: set[str] = set()
        """The texts in the joined text so far."""
        self._held: list[SearchedFrame] = []

    def feed(self, frames: Iterable[TimedFrame]) -> Iterator[SearchedFrame]:
        """Yield the frames for which the search is complete."""
        for seen in frames:
            searched, key = SearchedFrame(seen), self._key
            if isinstance(seen, Event):
                key = (seen.type, seen.keys) if seen.kind == "delta" else None
                searched.text = (seen.text or "").lower()
            elif seen.frame.kind in {FrameKind.TAIL, FrameKind.OVERSIZED}:
                key = None
                searched.text = seen.frame.raw.decode("utf-8", "replace").lower()
            if key is None or key != self._key:
                yield from self.interrupt()
            self._key, searched.joined = key, self._joined
            self._held.append(searched)
            if len(self._held) > _MOST_HELD:
                yield from self.release(self._overlap)
            if key is None or len(self._held) > _MOST_HELD:
                yield from self.interrupt()

    def interrupt(self) -> Iterator[SearchedFrame]:
        """Yield the frames that are held back: no text continues after them."""
        yield from self.release()
        self._before, self._joined = "", set()

    def release(self, kept: int = 0) -> Iterator[SearchedFrame]:
        """Search the frames that are held back, and yield them except those with the last `kept` characters."""
        joined = self._before + "".join(searched.text for searched in self._held)
        ends = list(accumulate((len(searched.text) for searched in self._held), initial=len(self._before)))[1:]
        for wanted in self.wanted:
            at = joined.find(wanted, max(len(self._before) - len(wanted) + 1, 0))
            while at >= 0:
                self._joined.add(wanted)
                for searched in self._held[bisect_right(ends, at) : bisect_left(ends, at + len(wanted)) + 1]:
                    searched.found.update([wanted] if searched.text else ())
                at = joined.find(wanted, at + 1)
        begin = bisect_right(ends, len(joined) - kept)
        if begin:
            self._before = joined[: ends[begin - 1]][-self._overlap :]
        yield from self._held[:begin]
        del self._held[:begin]
