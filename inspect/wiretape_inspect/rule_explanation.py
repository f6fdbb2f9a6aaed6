"""What there is to know about a rule, for people: on a terminal, as a page, as JSON.

Everything comes from the catalogue, from `wiretape.rules.explanation_of` and from the vectors, which are tests too.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from wiretape.rules import CATALOGUE, Rule, explanation_of
from wiretape.rules.vectors import vectors_of
from wiretape_inspect.examples import Example

WIDTH = 100
"""How many columns the text for a terminal has, unless there are fewer."""
_BASES = {
    "stated": "the specification says so",
    "inferred": "it follows from what the specification says, or is plainly meant",
}
_PARTS = {
    "message": "one message of a stream",
    "stream": "one connection",
    "exchange": "one request and its response",
    "session": "all traffic of one session",
    "client": "all traffic of one client",
    "recording": "the whole recording",
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """One rule explained."""

    rule: Rule
    why: str
    unexercised: str
    knowing: str
    examples: list[Example]

    @classmethod
    def of(cls, rule: Rule) -> "Explanation":
        """Everything about `rule`; parts that nobody has written yet are empty."""
        texts = explanation_of(rule)
        examples = [Example.of(vector) for vector in vectors_of(rule.code)]
        # The plain ones first: `breaks` before `breaks-in-a-line`.
        examples.sort(key=lambda example: (not example.breaks, example.name))
        return cls(rule, texts.why, texts.not_exercised, texts.notes, examples)

    def main(self) -> list[Example]:
        """One example that breaks the rule, and one that keeps it."""
        breaking = [example for example in self.examples if example.breaks]
        keeping = [example for example in self.examples if not example.breaks]
        return breaking[:1] + keeping[:1]


def about(rule: Rule) -> list[str]:
    """What breaks the rule, as paragraphs without line breaks; the first says it in one sentence."""
    return [" ".join(paragraph.split()) for paragraph in rule.about.split("\n\n")]


def table_lines(rules: Iterable[Rule]) -> Iterator[str]:
    """All rules, one a line."""
    rules = list(rules)
    wide = max(len(rule.name) for rule in rules)
    for rule in rules:
        yield f"{rule.code:<8} {rule.name:<{wide}}  {rule.severity:<7}  {rule.side:<9}  {rule.basis}"


def text_lines(explanation: Explanation, *, everything: bool = False, width: int = WIDTH) -> Iterator[str]:
    """A rule for a terminal that has so many columns."""
    rule = explanation.rule
    yield f"{rule.code} {rule.name}"
    yield ""
    for paragraph in about(rule):
        yield from [*_wrapped(paragraph, width), ""]
    for name, value in _facts(rule):
        yield from _hanging(f"{name + ':':<11} ", value, width)
    for head, text in _sections(explanation):
        yield from ["", head, *_wrapped(text, width, "  ")]
    for example in explanation.examples if everything else explanation.main():
        yield from ["", *_wrapped(f"{_verb(example)}: {example.shows}", width), ""]
        yield from (f"    {line}".rstrip() for line in example.traffic)
        for line in example.found:
            yield from _hanging("  => ", line, width)


def markdown_lines(explanation: Explanation) -> Iterator[str]:
    """A rule as a page."""
    rule = explanation.rule
    yield f"# {rule.code} {rule.name}"
    yield ""
    for paragraph in about(rule):
        yield from [paragraph, ""]
    yield from ["| | |", "|---|---|"]
    for name, value in _facts(rule):
        yield f"| {name.capitalize()} | {value.replace('|', chr(92) + '|')} |"
    for head, text in _sections(explanation):
        yield from ["", f"## {head}", "", text]
    for example in explanation.examples:
        yield from ["", f"## {_verb(example)}", "", example.shows, "", "```text", *example.traffic, "```"]
        yield from (f"\n> {line}" for line in example.found)


def index_lines(rules: Iterable[Rule]) -> Iterator[str]:
    """The page that lists all others."""
    yield "# The rules"
    yield ""
    yield "`wiretape rule --all --format markdown` writes these pages; do not edit them (`make docs-rules`)."
    family = None
    for rule in rules:
        if (prefix := rule.code.rstrip("0123456789")) != family:
            family = prefix
            yield from ["", f"## {family}", "", "| Code | Name | Severity | Side | Basis | What breaks it |"]
            yield "|---|---|---|---|---|---|"
        what = about(rule)[0].replace("|", "\\|")
        cells = (f"[{rule.code}]({rule.code}.md)", rule.name, rule.severity, rule.side, rule.basis, what)
        yield f"| {' | '.join(cells)} |"


def as_json(explanation: Explanation) -> dict[str, Any]:
    """A rule for programs."""
    rule = explanation.rule
    return {
        "code": rule.code,
        "name": rule.name,
        "severity": rule.severity,
        "side": rule.side,
        "scope": rule.scope,
        "basis": rule.basis,
        "clause": rule.clause,
        "about": "\n\n".join(about(rule)),
        "why": explanation.why,
        "not_exercised": explanation.unexercised,
        "worth_knowing": explanation.knowing,
        "examples": [
            {
                "name": each.name,
                "breaks": each.breaks,
                "shows": each.shows,
                "traffic": each.traffic,
                "found": each.found,
            }
            for each in explanation.examples
        ],
    }


def pages() -> dict[str, str]:
    """Every page of docs/rules by the name of its file."""
    rules = list(CATALOGUE.values())
    made = {"README.md": index_lines(rules)}
    made |= {f"{rule.code}.md": markdown_lines(Explanation.of(rule)) for rule in rules}
    return {name: "".join(f"{line}\n" for line in lines) for name, lines in made.items()}


def _facts(rule: Rule) -> Iterator[tuple[str, str]]:
    yield "severity", rule.severity
    yield "broken by", f"the {rule.side}"
    yield "decided on", _PARTS[rule.scope]
    yield "clause", rule.clause
    yield "basis", f"{rule.basis}: {_BASES[rule.basis]}"


def _sections(explanation: Explanation) -> Iterator[tuple[str, str]]:
    if explanation.why:
        yield "Why it matters", explanation.why
    if explanation.unexercised:
        yield "When it is not exercised", explanation.unexercised
    if explanation.knowing:
        yield "Worth knowing", explanation.knowing


def _verb(example: Example) -> str:
    return "This breaks it" if example.breaks else "This keeps it"


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    return wrap(text, width, initial_indent=indent, subsequent_indent=indent, break_long_words=False)


def _hanging(head: str, text: str, width: int) -> list[str]:
    return wrap(text, width, initial_indent=head, subsequent_indent=" " * len(head), break_long_words=False)
