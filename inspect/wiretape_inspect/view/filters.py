"""The filter grammar: what a text says, as a `Filter`.  Pure; `matching` tells what it takes.

filter  = group { "or" group }
group   = term { term }                              all of them
term    = ["-"] [field ":"] value { "," value }      any of them; without a field, `text`
value   = word | "quoted" | /regex/
"""

from wiretape.errors import InputError
from wiretape.safe_text import closest_match, shorten
from wiretape_inspect.view.conditions import ESCAPES, FIELDS, KINDS, NUMBERS, Filter, Regex, Term, Text, Value
from wiretape_inspect.view.patterns import regex_fault
from wiretape_inspect.view.ranges import RangeError, parsed

_NO_NAME = frozenset(',":/')


def parse(text: str) -> Filter:
    """The filter that `text` says.  Raises InputError: one sentence with the place where it is wrong."""
    return _Reader(text).filter()


class _Reader:
    """Reads a filter from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def filter(self) -> Filter:
        groups: list[tuple[Term, ...]] = []
        group: list[Term] = []
        while self._skip_space():
            if self._takes_or():
                if not group:
                    raise self._wrong(self._at - 2, "`or` stands between two conditions")
                groups.append(tuple(group))
                group = []
                continue
            group.append(self._term())
        if group:
            groups.append(tuple(group))
        elif groups:
            raise self._wrong(len(self._text), "a condition is missing after `or`")
        return Filter(tuple(groups))

    def _takes_or(self) -> bool:
        rest = self._text[self._at : self._at + 3]
        if rest[:2] != "or" or rest[2:].strip():
            return False
        self._at += 2
        return True

    def _term(self) -> Term:
        negated = self._peek() == "-"
        self._at += negated
        if negated and not self._peek().strip():
            raise self._wrong(self._at - 1, "a condition is missing after `-`")
        begin = self._at
        field = self._name() or "text"
        term = Term(field, self._values(field), negated)
        if self._peek().strip():
            raise self._wrong(self._at, f"a space is missing after {shorten(self._text[begin : self._at])}")
        return term

    def _name(self) -> str:
        """The name of the field that begins here; empty, and nothing read, where it is a word of its own."""
        end = self._at
        while end < len(self._text) and not self._text[end].isspace() and self._text[end] not in _NO_NAME:
            end += 1
        if self._text[end : end + 1] != ":":
            return ""
        name = self._text[self._at : end]
        if name not in FIELDS:
            guess = closest_match(name, FIELDS)
            hint = f"did you mean `{guess}`?" if guess else f"there are {', '.join(FIELDS)}."
            raise self._wrong(self._at, f"there is no field `{shorten(name)}`; {hint}", whole=True)
        self._at = end + 1
        return name

    def _values(self, field: str) -> tuple[Value, ...]:
        values = [self._value(field)]
        while self._peek() == ",":
            self._at += 1
            values.append(self._value(field))
        return tuple(values)

    def _value(self, field: str) -> Value:
        begin = self._at
        found = self._found() if field == "text" else self._plain_or_quoted()
        if isinstance(found, Regex):
            return found
        if not found.text and not found.literal:
            raise self._wrong(begin, f"a value of `{field}` is missing here")
        if field == "kind":
            return self._kind(found, begin)
        if field not in NUMBERS:
            return found
        try:
            return parsed(found.text, NUMBERS[field])
        except RangeError as error:
            raise self._wrong(begin, f"{shorten(found.text)!r} is no value of `{field}`: {error}") from None

    def _kind(self, found: Text, begin: int) -> Text:
        if found.text in KINDS:
            return Text(found.text)
        guess = closest_match(found.text, KINDS)
        hint = f"did you mean `{guess}`?" if guess else f"there are {', '.join(KINDS)}."
        raise self._wrong(begin, f"there is no kind `{shorten(found.text)}`; {hint}", whole=True)

    def _found(self) -> Text | Regex:
        return self._regex() if self._peek() == "/" else self._plain_or_quoted()

    def _plain_or_quoted(self) -> Text:
        return self._quoted() if self._peek() == '"' else Text(self._word())

    def _word(self) -> str:
        begin = self._at
        while self._peek() and not self._peek().isspace() and self._peek() not in '",':
            self._at += 1
        return self._text[begin : self._at]

    def _quoted(self) -> Text:
        begin, said = self._at, ""
        self._at += 1
        while (char := self._peek()) != '"':
            if not char:
                raise self._wrong(begin, "the quotation mark is not closed")
            self._at += 1
            if char == "\\":
                char = ESCAPES.get(self._peek(), "")
                if not char:
                    raise self._wrong(self._at - 1, 'after a backslash only \\, ", n, t and r may stand in quotes')
                self._at += 1
            said += char
        self._at += 1
        return Text(said, literal=True)

    def _regex(self) -> Regex:
        begin, said = self._at, ""
        self._at += 1
        while (char := self._peek()) != "/":
            if not char:
                raise self._wrong(begin, "the / at the end of the regular expression is missing")
            self._at += 1
            if char == "\\" and self._peek():
                char = self._peek() if self._peek() == "/" else f"\\{self._peek()}"
                self._at += 1
            said += char
        self._at += 1
        fault = regex_fault(said)
        if fault is not None:
            raise self._wrong(begin, f"the regular expression {fault}")
        return Regex(said)

    def _peek(self) -> str:
        return self._text[self._at : self._at + 1]

    def _skip_space(self) -> bool:
        while self._peek().isspace():
            self._at += 1
        return self._at < len(self._text)

    def _wrong(self, at: int, what: str, *, whole: bool = False) -> InputError:
        return InputError(f"Filter, at character {at + 1}: {what}{'' if whole else '.'}")
