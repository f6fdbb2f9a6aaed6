"""Explain rules: as text, as Markdown pages and as JSON.

The texts come from the catalogue, and from the vectors, which are also tests.
"""

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from wiretape.checker import CATALOGUE, Settings
from wiretape.checker.contract_examples import find_in_example
from wiretape.checker.default_rules import default_contracts
from wiretape.json_codec import members_of
from wiretape.labels import ending_label
from wiretape.observations import (
    BytesArrived,
    BytesLost,
    Ending,
    ExchangeEnded,
    Headers,
    Observation,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.rules import Rule, RuleSet
from wiretape.rules.vectors import Vector, vectors_of
from wiretape.safe_text import printable
from wiretape.units import format_duration, format_time
from wiretape_inspect.terminal_output import BLANK, Line, labelled, prose, wrapped

_MAX_LINE = 600
"""Characters of a line of traffic that are shown."""
_TRAFFIC = re.compile(r"([<>] ?|)((?:[\w-]+: )?)(.*)")
"""The mark, the field and the rest of a line of traffic."""
_PAUSE_NS = 100_000_000
"""Shortest pause within an exchange that is mentioned."""
_BASES = {
    "stated": "the specification states it",
    "inferred": "it follows from the specification, or is clearly intended",
}
_PARTS = {
    "message": "one event of a stream",
    "stream": "one connection",
    "exchange": "one request and its response",
    "session": "all traffic of one session",
    "channel": "all streams of one channel",
    "client": "all traffic of one client",
    "recording": "the whole recording",
}


@dataclass(frozen=True, slots=True)
class Example:
    """A vector for people to read."""

    name: str
    breaks: bool
    shows: str
    traffic: list[str]
    """The lines of the traffic; bytes that are not text are escaped."""
    found: list[str]
    """What the checker finds."""

    @classmethod
    def of(cls, vector: Vector, contract: RuleSet | None = None) -> "Example":
        """Check a vector, and format its traffic and findings."""
        findings, _ = find_in_example(contract, vector)
        found = [f"{finding.code} {finding.severity}: {finding.message}" for finding in findings]
        return cls(vector.name, vector.breaks, vector.shows, list(_traffic_lines(vector.observations())), found)


@cache
def examples_of(code: str, contract: RuleSet | None = None) -> tuple[Example, ...]:
    """Return the examples of a rule, built-in or of a contract: those that break it come first."""
    examples = [Example.of(vector) for vector in vectors_of(code)]
    if not examples:
        declaring = (contract or next(each for each in default_contracts() if code in each.catalogue)).declaring(code)
        examples = [Example.of(vector, declaring) for vector in declaring.examples_of(code)]
    # `breaks` comes before `breaks-in-a-line`.
    return tuple(sorted(examples, key=lambda example: (not example.breaks, example.name)))


def explain_command(rule: Rule, settings: Settings) -> str:
    """Return the command that explains a rule; empty if its contract comes with a recording."""
    contract = None if rule.everywhere else settings.contract_of(rule.code)
    if contract is None:
        return f"wiretape rule {rule.code}"
    if contract.reference is None:
        return ""
    return f"wiretape rule {rule.code} --contract {printable(shlex.quote(contract.reference))}"


def paragraphs(rule: Rule) -> list[str]:
    """Return what breaks the rule, as paragraphs without line breaks; the first is one sentence."""
    return [" ".join(paragraph.split()) for paragraph in rule.about.split("\n\n")]


def reason_lines(rule: Rule, *, clause_only: bool = False, indent: int = 4) -> Iterator[Line]:
    """Yield what a finding shows about its rule: the clause, why it matters, and the usual fix."""
    texts = rule.explanation
    reasons = [("clause", f"{rule.clause} ({rule.basis})"), ("why", texts.why), ("fix", texts.fix)]
    for label, text in reasons[:1] if clause_only else reasons:
        if text:
            yield labelled((f"{'':{indent}}= {label}: ", "dim"), (text, "dim"))


def table_lines(rules: Iterable[Rule], *, indent: str = "") -> Iterator[Line]:
    """Yield one line for each rule."""
    rules = list(rules)
    width = max(len(rule.name) for rule in rules)
    for rule in rules:
        code, name = (f"{indent}{rule.code:<8} ", "head"), f"{rule.name:<{width}}  "
        yield Line([code, name, (f"{rule.severity:<7}  ", rule.severity), f"{rule.side:<9}  ", (rule.basis, "dim")])


def text_lines(rule: Rule, *, all_examples: bool = False, contract: RuleSet | None = None) -> Iterator[Line]:
    """Yield the explanation of a rule as text."""
    yield wrapped((f"{rule.code} {rule.name}", "head"))
    yield BLANK
    for paragraph in paragraphs(rule):
        yield from [prose("", paragraph), BLANK]
    for name, value in _properties(rule):
        yield prose((f"{name + ':':<11} ", "dim"), (value, value))
    for title, text in _sections(rule):
        yield from [BLANK, wrapped((title, "head"))]
        yield from (prose("  ", line) if line else BLANK for line in text.split("\n"))
    examples = examples_of(rule.code, contract)
    breaking = [example for example in examples if example.breaks]
    satisfying = [example for example in examples if not example.breaks]
    for example in examples if all_examples else breaking[:1] + satisfying[:1]:
        yield BLANK
        shows = f": {example.shows}" if example.shows else ""
        yield prose("", (_heading(example), "bad" if example.breaks else "good"), shows)
        yield BLANK
        for line in example.traffic:
            _, mark, label, value, _ = _TRAFFIC.split(line, maxsplit=1)
            yield Line([(f"    {mark}", "dim"), label, value], "wrap", len(f"    {mark}{label}"))
        for line in example.found:
            head, _, message = line.partition(": ")
            yield prose("  => ", (f"{head}:", head.partition(" ")[2]), f" {message}")


def markdown_lines(rule: Rule, contract: RuleSet | None = None) -> Iterator[str]:
    """Yield the explanation of a rule as a Markdown page, with the traffic of one example of each kind."""
    yield f"# {rule.code} {rule.name}"
    yield ""
    for paragraph in paragraphs(rule):
        yield from [paragraph, ""]
    yield from ["| | |", "|---|---|"]
    for name, value in _properties(rule):
        yield f"| {name.capitalize()} | {value.replace('|', chr(92) + '|')} |"
    for title, text in _sections(rule):
        yield from ["", f"## {title}", "", *text.split("\n")]
    shown: set[bool] = set()
    others = []
    for example in examples_of(rule.code, contract):
        if example.breaks in shown:
            others.append(f"- {_heading(example)}: {example.shows}")
            continue
        shown.add(example.breaks)
        yield from ["", f"## {_heading(example)}", *(["", example.shows] if example.shows else [])]
        yield from ["", "```text", *example.traffic, "```"]
        for line in example.found:
            escaped = line.replace("[^", r"\[^")  # it is no footnote
            yield from ["", f"> {escaped}"]
    if others:
        command = f"wiretape rule {rule.code} --all"
        yield from ["", "## Other examples", "", f"`{command}` shows all examples with their traffic.", "", *others]


def index_lines(rules: Iterable[Rule], contract: RuleSet | None = None) -> Iterator[str]:
    """Yield the Markdown page that lists all rules; of a contract, those that it declares itself."""
    if contract is None:
        title, which, command = "The rules", "built-in rules", "wiretape rule --all --format markdown"
    else:
        title = f"The rules of the contract {contract.name}"
        which, command = f"rules of the contract {contract.name}", "wiretape contract docs"
    yield from [f"# {title}", "", f"This page lists the {which}. Each code links to a page that explains the rule."]
    yield f"`{command}` generates these pages, so do not edit them."
    family = None
    for rule in rules:
        if (prefix := rule.code.rstrip("0123456789")) != family:
            family = prefix
            yield from ["", f"## {family}", "", "| Code | Name | Severity | Side | Basis | Broken if |"]
            yield "|---|---|---|---|---|---|"
        what = paragraphs(rule)[0].replace("|", "\\|")
        cells = (f"[{rule.code}]({rule.code}.md)", rule.name, rule.severity, rule.side, rule.basis, what)
        yield f"| {' | '.join(cells)} |"
    if contract is not None:
        yield from ["", *_inherited_lines(contract)]


def _inherited_lines(contract: RuleSet) -> Iterator[str]:
    """Yield a line for each contract that this one extends, with the rules that both contain."""
    codes: dict[str, list[str]] = {}
    for rule in contract.rules:
        declaring = contract.declaring(rule.code)
        if rule.everywhere or declaring is not contract:
            source = "every contract" if rule.everywhere else f"the contract {declaring.name}"
            codes.setdefault(source, []).append(rule.code)
    yield from (f"Rules shared with {source}: {', '.join(found)}." for source, found in codes.items())


def explanation_document(rule: Rule, contract: RuleSet | None = None) -> dict[str, Any]:
    """Return the explanation of a rule as plain data for JSON."""
    texts = rule.explanation
    return {
        **rule_facts(rule),
        "about": "\n\n".join(paragraphs(rule)),
        "why": texts.why,
        "fix": texts.fix,
        "not_exercised": texts.not_exercised,
        "worth_knowing": texts.notes,
        "examples": examples_of(rule.code, contract),
    }


def rule_facts(rule: Rule) -> dict[str, str]:
    """Return what the catalogue states about a rule."""
    return members_of(rule, "code", "name", "severity", "side", "scope", "basis", "clause")


def pages(contract: RuleSet | None = None) -> dict[str, str]:
    """Return the pages of docs/rules, or of the rules that a contract declares itself, by file name."""
    rules = [
        rule
        for code, rule in (CATALOGUE if contract is None else contract.catalogue).items()
        if contract is None or not (rule.everywhere or contract.declaring(code) is not contract)
    ]
    texts = {"README.md": index_lines(rules, contract)}
    texts |= {f"{rule.code}.md": markdown_lines(rule, contract) for rule in rules}
    return {name: "".join(f"{printable(line)}\n" for line in lines) for name, lines in texts.items()}


def _properties(rule: Rule) -> Iterator[tuple[str, str]]:
    yield "severity", rule.severity
    yield "broken by", f"the {rule.side}"
    yield "scope", _PARTS[rule.scope]
    yield "clause", rule.clause
    yield "basis", f"{rule.basis}: {_BASES[rule.basis]}"


def _sections(rule: Rule) -> Iterator[tuple[str, str]]:
    texts = rule.explanation
    titles = {
        "Why it matters": texts.why,
        "The usual fix": texts.fix,
        "When the rule is not exercised": texts.not_exercised,
        "Notes": texts.notes,
    }
    return ((title, text) for title, text in titles.items() if text)


def _heading(example: Example) -> str:
    return "This breaks the rule" if example.breaks else "This satisfies the rule"


def _traffic_lines(observations: Iterable[Observation]) -> Iterator[str]:
    """Yield the lines of traffic: `>` marks what the client sends, `<` what the service responds."""
    shown = list(observations)
    has_several = len({seen.exchange for seen in shown}) > 1
    clients = {seen.exchange: seen.client for seen in shown if isinstance(seen, RequestStarted)}
    client_notes = {
        number: f", client {name}" if len(set(clients.values())) > 1 else "" for number, name in clients.items()
    }
    current, last_ns = None, shown[0].time_ns
    for seen in shown:
        lines = list(_observation_lines(seen))
        if lines and has_several and current != seen.exchange:
            yield from ([] if current is None else [""])
            yield f"# exchange {seen.exchange}{client_notes[seen.exchange]}, {format_time(seen.time_ns)}"
            current = seen.exchange
        elif lines and seen.time_ns - last_ns >= _PAUSE_NS:
            yield f"({format_duration(seen.time_ns - last_ns)} later)"
        yield from map(_shorten, lines)
        last_ns = seen.time_ns


def _observation_lines(seen: Observation) -> Iterator[str]:
    match seen:
        case RequestStarted():
            yield printable(f"> {seen.method} {seen.target}")
            yield from _header_lines(">", seen.headers)
        case ResponseStarted():
            yield printable(f"< {seen.status} {seen.reason}")
            yield from _header_lines("<", seen.headers)
        case BytesArrived():
            mark = ">" if seen.side is Side.REQUEST else "<"
            yield from (f"{mark} {line}".rstrip() for line in _body_lines(seen.data))
        case BytesLost():
            yield f"({seen.count} bytes were not recorded)"
        case ExchangeEnded() if seen.ending is not Ending.COMPLETE:
            yield f"({ending_label(seen.ending, stream=False)})"


def _shorten(line: str) -> str:
    return line if len(line) <= _MAX_LINE else f"{line[:_MAX_LINE]}… ({len(line) - _MAX_LINE:,} characters more)"


def _header_lines(mark: str, headers: Headers) -> Iterator[str]:
    yield from (printable(f"{mark} {name}: {value}") for name, value in headers)
    yield mark


def _body_lines(data: bytes) -> list[str]:
    """Return the lines of a body; bytes that are not text, and line ends other than LF, become escapes."""
    text = data.decode("utf-8", "backslashreplace")
    lines = [printable(line) for line in text.split("\n")]
    return lines[:-1] if lines[-1] == "" else [*lines[:-1], f"{lines[-1]}  (no line end)"]
