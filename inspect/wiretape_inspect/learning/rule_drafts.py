"""The draft of a contract: what a survey of recordings shows, as tables and rules of a contract file."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wiretape.labels import count_of
from wiretape.patterns import list_of
from wiretape_inspect.learning.entity_search import FoundEntity, FoundText, one_or_list
from wiretape_inspect.learning.field_survey import FieldSurvey, Survey, TypeSurvey
from wiretape_inspect.learning.path_templates import FoundOperation, slug, unique_name
from wiretape_inspect.learning.recorded_streams import MOST_NAMES

_MOST_SCHEMAS = 200
_MOST_ENDS = 3
"""Types that streams may begin or end with."""
_MOST_SAME = 40
"""Fields with one value for each stream."""
_MOST_TEXTS = 10
_TEXT_STEPS = ("delta", "text", "content", "token", "chunk", "arguments", "args", "partial_json", "thinking", "value")
_DELTA_WORDS = ("delta", "chunk", "content", "args", "token", "partial")


@dataclass(slots=True)
class RuleDraft:
    """One rule: a primitive with its value, and what it was learned from."""

    name: str
    primitive: str
    value: Any
    observed: str
    """What was observed, as a sentence."""
    is_weak: bool
    """Whether it was observed too rarely to be more than a proposal."""
    on: tuple[str, ...] = ()
    code: str = ""
    breaks: Any = None
    keeps: Any = None
    also: list[str] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """Return the table of a contract."""
        table = {"code": self.code, "name": self.name, self.primitive: self.value, "basis": "inferred"}
        optional = {"on": self.on and one_or_list(self.on), "also": self.also, "clause": self.observed}
        table |= {name: value for name, value in optional.items() if value}
        return table | {"breaks": self.breaks} | ({} if self.keeps is None else {"keeps": self.keeps})

    @property
    def subject(self) -> Any:
        """What the rule is about."""
        return subject_of(self.primitive, self.value)


def subject_of(primitive: str, value: Any) -> Any:
    """Return what a rule is about: rules with one primitive and one subject say the same, or contradict each other."""
    if primitive in {"first", "last", "schema"}:
        return None
    if not isinstance(value, Mapping):
        return value if isinstance(value, str) else tuple(sorted(value))
    if "entity" in value:
        parts = [list_of(value.get(key)) for key in ("aspects", "deltas", "final", "text")]
        return (value["entity"], *parts) if any(parts) else value["entity"]
    return value.get("fact")


@dataclass(slots=True)
class ContractDraft:
    """The tables of a contract."""

    operations: dict[str, dict[str, Any]]
    event: dict[str, Any]
    types: dict[str, dict[str, Any]]
    entities: dict[str, dict[str, Any]]
    rules: list[RuleDraft]


class Drafter:
    """Drafts a contract; what has fewer than `least` observations is weak."""

    def __init__(self, survey: Survey, operations: Sequence[FoundOperation], type_place: str, least: int) -> None:
        self._survey = survey
        self._found = operations
        self._type = type_place
        self._least = least
        self._fields = dict(sorted(survey.fields.items()))
        counters = [
            pointer for pointer, each in self._fields.items() if pointer != "id" and each.is_counter and each.steps
        ]
        self._sequence = max(counters, key=lambda pointer: (self._fields[pointer].events, -len(pointer)), default=None)
        self._cursors = {
            operation: (name, pointer)
            for (operation, name, pointer), holds in sorted(survey.cursors.items(), reverse=True)
            if holds and pointer in counters
        }

    def operations(self) -> dict[str, dict[str, Any]]:
        """Return the tables of the operations."""
        tables = {}
        for each in self._found:
            table: dict[str, Any] = {"request": each.request}
            tables[each.name] = table
            if not each.streams:
                table["stream"] = False
                continue
            is_read = each.method == "GET"
            if each.name in self._cursors:
                table["cursor"] = f"query:{self._cursors[each.name][0]}"
            elif each.name in self._survey.with_header or (is_read and each.name in self._survey.with_ids):
                table["cursor"] = "header:Last-Event-ID"
            if is_read and "{" in each.request:
                table["channel"] = "{" + each.request.rpartition("{")[2].partition("}")[0] + "}"
            if is_read and self._begins_at_start(each):
                table["begins"] = "start"
        return tables

    def _begins_at_start(self, operation: FoundOperation) -> bool:
        """Whether streams of a GET request seem to begin with the first event of their channel."""
        begins = self._survey.begins.get(operation.name)
        if begins is None or begins.streams < 2:
            return False
        starts = [self._fields[pointer].starts for pointer in (self._sequence, "id") if pointer in self._fields]
        return not self._survey.inner.intersection(begins.types) or any(len(each) == 1 for each in starts)

    def event(self, texts: Sequence[FoundText]) -> dict[str, Any]:
        """Return the table of the facts of events."""
        table: dict[str, Any] = {"type": self._type}
        if self._sequence is not None:
            table["sequence"] = self._sequence
        if self._cursors:
            table["cursor"] = min(pointer for _, pointer in self._cursors.values())
        else:
            durable = [name for name, each in sorted(self._survey.types.items()) if each.with_id == each.events]
            is_mixed = any(0 < each.with_id < each.events for each in self._survey.types.values())
            if durable and not is_mixed and len(durable) <= MOST_NAMES:
                table["durable"] = "always" if len(durable) == len(self._survey.types) else durable
        places = {each.deltas: each.piece for each in texts}
        for name, each in sorted(self._survey.types.items()):
            if name not in places and (pointer := self._delta_text(name, each)) is not None:
                places[name] = pointer
        if 0 < len(places) <= MOST_NAMES:
            pointers = set(places.values())
            table["delta"] = {"types": sorted(places), "text": min(pointers) if len(pointers) == 1 else places}
        return table

    def _delta_text(self, name: str, type_: TypeSurvey) -> str | None:
        """Return where a type that seems to be a fragment has its text."""
        pointers = sorted(pointer for pointer, kind in type_.fields if kind is str and pointer in self._fields)
        fit = [
            pointer
            for pointer in pointers
            if pointer.rpartition("/")[2] in _TEXT_STEPS
            and not self._fields[pointer].is_same
            and any(word in f"{name}{pointer}".lower() for word in _DELTA_WORDS)
        ]
        return (
            min(fit, key=lambda pointer: ("delta" not in pointer, pointer)) if type_.most_in_row > 1 and fit else None
        )

    def types(self) -> dict[str, dict[str, Any]]:
        """Return the tables of the types, most of them with a schema."""
        most = sorted(self._survey.types.items(), key=lambda item: (-item[1].events, item[0]))[:_MOST_SCHEMAS]
        names = {name for name, each in most if each.objects == each.events >= self._least}
        return {
            name: {"schema": each.shape.schema(self._least)} if name in names else {}
            for name, each in sorted(self._survey.types.items())
        }

    def rules(self, entities: Sequence[FoundEntity], texts: Sequence[FoundText]) -> list[RuleDraft]:
        """Return the rules, each with a name of its own."""
        drafts: dict[str, RuleDraft] = {}
        for draft in (*self._type_rules(), *self._field_rules(), *self._stream_rules(), *self._life_rules(entities)):
            draft.name = unique_name(draft.name, drafts, "-")
            drafts[draft.name] = draft
        for text in list(texts)[:_MOST_TEXTS]:
            joined = {"entity": text.entity.name, "deltas": text.deltas, "final": text.final, "text": text.whole}
            name = unique_name(f"{slug(text.entity.name)}-text-differs", drafts, "-")
            drafts[name] = self._draft(name, "joined", joined, text.count, "whole text")
        return list(drafts.values())

    def _draft(
        self,
        name: str,
        primitive: str,
        value: Any,
        count: int,
        noun: str,
        *,
        on: tuple[str, ...] = (),
        is_weak: bool = False,
    ) -> RuleDraft:
        observed = f"Learned from {count_of(count, noun)}, without an exception."
        return RuleDraft(name, primitive, value, observed, is_weak or count < self._least, on)

    def _type_rules(self) -> Iterator[RuleDraft]:
        survey = self._survey
        single = sum(each.events == 1 for each in survey.types.values())
        values = {"fact": "type", "values": "types"}
        yield self._draft("unknown-type", "one_of", values, survey.events, "event", is_weak=single * 5 > survey.events)
        if schemas := [survey.types[name].events for name, table in self.types().items() if table]:
            yield self._draft("other-fields", "schema", "types", sum(schemas), "event")
        if survey.line_matches[True] and not survey.line_matches[False]:
            count = survey.line_matches[True]
            yield self._draft("event-line-differs", "match", ["event", self._type], count, "event")
        types = sorted(survey.types.items())
        always = [name for name, each in types if each.with_id == each.events]
        never = [name for name, each in types if not each.with_id]
        if 0 < len(always) <= MOST_NAMES:
            count = sum(survey.types[name].events for name in always)
            on = () if len(always) == len(types) else tuple(always)
            yield self._draft("no-id", "require", "id", count, "event", on=on)
        if 0 < len(never) < len(types) and len(never) <= MOST_NAMES:
            count = sum(survey.types[name].events for name in never)
            yield self._draft("unusual-id", "forbid", "id", count, "event", on=tuple(never))

    def _field_rules(self) -> Iterator[RuleDraft]:
        has_channel = any("channel" in table for table in self.operations().values())
        for pointer, each in self._fields.items():
            for name in ("id", *(("channel",) if has_channel else ())):
                if each.matches[name] and name not in each.differs:
                    what = f"{slug(pointer)}-differs-from-{'id-line' if name == 'id' else name}"
                    yield self._draft(what, "match", [pointer, name], each.matches[name], "event")
            if each.is_counter and each.steps:
                counter: dict[str, Any] = {"fact": "sequence" if pointer == self._sequence else pointer, "by_one": True}
                if len(each.starts) == 1 and each.starts.total() >= self._least:
                    counter["starts_at"] = min(each.starts)
                yield self._draft(f"{slug(pointer)}-gap", "counter", counter, each.steps, "step")
        objects = sum(each.objects for each in self._survey.types.values())
        lasting = [item for item in self._fields.items() if self._lasts(*item)]
        for pointer, each in sorted(lasting, key=lambda item: (-item[1].compared, item[0]))[:_MOST_SAME]:
            # What is the same in all streams may be so by chance, unless every event has it.
            is_common = each.streams >= self._least and each.events * 10 >= objects * 9
            is_weak = len(each.firsts) < 2 and not is_common
            yield self._draft(f"{slug(pointer)}-changes", "same", pointer, each.compared, "comparison", is_weak=is_weak)

    def _lasts(self, pointer: str, each: FieldSurvey) -> bool:
        """Whether a field names something that a stream has one of."""
        is_name = pointer not in {"id", self._type} and "/0" not in pointer and not each.matches["channel"]
        if not is_name or not each.is_same or each.compared < self._least:
            return False
        return each.kinds == {str} or (each.kinds <= {int, str} and len(each.firsts) > 1)

    def _stream_rules(self) -> Iterator[RuleDraft]:
        starting = [each.name for each in self._found if each.method != "GET" or self._begins_at_start(each)]
        begins = [self._survey.begins[name] for name in starting if name in self._survey.begins]
        first = sorted({type_ for each in begins for type_ in each.types})
        if 0 < len(first) <= _MOST_ENDS and len(first) < len(self._survey.types):
            yield self._draft(
                "other-first-event", "first", one_or_list(first), sum(each.streams for each in begins), "stream"
            )
        last = sorted(self._survey.ends.types)
        if 0 < len(last) <= _MOST_ENDS and not self._survey.followed.intersection(last):
            yield self._draft("other-last-event", "last", one_or_list(last), self._survey.ends.streams, "stream")

    def _life_rules(self, entities: Sequence[FoundEntity]) -> Iterator[RuleDraft]:
        for each in entities:
            noun, name = each.name.replace("_", " "), slug(each.name)
            yield self._draft(f"{name}-out-of-order", "lifecycle", {"entity": each.name}, each.count, noun)
            closes = {"entity": each.name, "aspects": "closes"}
            yield self._draft(f"{name}-not-closed", "lifecycle", closes, each.count, noun)
