"""What events open, continue and close, and texts that arrive in pieces and then as a whole."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from itertools import islice, pairwise, permutations

from wiretape.contract.entity_tracker import JoinedText
from wiretape.contract.event_primitives import is_utc_time
from wiretape.contract.vocabulary import check_entity_name
from wiretape.event import Event
from wiretape.event_format import Entity, Key
from wiretape_inspect.learning.field_survey import FieldSurvey, Survey
from wiretape_inspect.learning.path_templates import slug, unique_name
from wiretape_inspect.learning.recorded_streams import MOST_NAMES, RecordedStream, Scalar, leaves

_MOST_KEYS = 12
"""Pointers that are tried as keys."""
_MOST_PAIRED = 6
"""Those that are also tried in pairs."""
_MOST_ENTITIES = 6
_MOST_KINDS = 500
_MOST_OF_KEY = 4
"""Entities with the same key."""
_MOST_DROPPED = 10
"""Types with the key of an entity that may not be about it."""
_LARGEST_KEY = 100_000_000
"""Larger numbers are times."""
_MOST_ENDS = 5
"""Types that open or close an entity."""
_LONGEST_LIFE = 60
_MOST_IN_STREAM = 2_000
"""Entities with the same kind of key that are followed on a stream."""
_MOST_TEXTS = 500
"""Texts that are joined at once on a stream."""
_END = re.compile(r"[._\s:/-]*(?:start|begin|open|creat|add)(?:s|ed|t|ted|n|ning|e|ing)?$", re.IGNORECASE)
_INDEX = re.compile(r"(?:index|number|id)$", re.IGNORECASE)
_Pointers = tuple[str, ...]
_Life = tuple[str, ...]
"""The types of the events of one entity, in order; of those that repeat in a row, two."""


@dataclass(frozen=True, slots=True)
class FoundEntity:
    """Something that events open, continue and close."""

    key: tuple[str, ...]
    opens: tuple[str, ...]
    closes: tuple[str, ...]
    continues: tuple[str, ...] | None
    """None for all events with the key."""
    count: int
    """How many were opened and closed."""
    events: int = 0
    name: str = ""
    within: str | None = None
    reopens: bool = False

    def document(self) -> dict[str, object]:
        """Return the table of a contract."""
        lists = {"key": self.key, "opens": self.opens, "closes": self.closes, "continues": self.continues}
        table: dict[str, object] = {name: one_or_list(texts) for name, texts in lists.items() if texts}
        table |= {} if self.within is None else {"within": self.within}
        return table | ({"reopens": True} if self.reopens else {})

    def entity(self) -> Entity:
        """Return the entity that reads keys."""
        return Entity(
            self.name or "entity", opens=self.opens, closes=self.closes, key=self.key, continues=self.continues
        )


class EntitySearch:
    """Collects the lives of what events may have the keys of."""

    def __init__(self, survey: Survey, type_place: str) -> None:
        places: Counter[str] = Counter()
        for type_ in survey.types.values():
            pointers = {pointer for pointer, kind in type_.fields if kind in {str, int}}
            places.update(pointer for pointer in pointers if pointer not in {"id", type_place} and "/0/" not in pointer)
        fit = [
            pointer for pointer, types in places.items() if types > 1 and _may_be_key(pointer, survey.fields[pointer])
        ]
        fit.sort(key=lambda pointer: (-places[pointer], -survey.fields[pointer].events, pointer))
        self._pointers = fit[:_MOST_KEYS]
        self._paired = frozenset(fit[:_MOST_PAIRED])
        self._lives: defaultdict[_Pointers, Counter[_Life]] = defaultdict(Counter)
        self._unfinished: defaultdict[_Pointers, Counter[_Life]] = defaultdict(Counter)
        """The lives that may have gone on after the end of the stream."""
        self._events: Counter[_Pointers] = Counter()
        self._names: defaultdict[_Pointers, set[tuple[Scalar, ...]]] = defaultdict(set)
        """For each key, at most two of its values."""
        self._unfit: set[_Pointers] = set()

    def add(self, stream: RecordedStream, event: Event) -> None:
        """Add an event of a stream."""
        if not stream.is_from_start:
            return
        memory: dict[_Pointers, dict[tuple[Scalar, ...], list[str]]] = stream.memory.setdefault(self, {})
        values = dict(leaves(event.value))
        named = {pointer: values[pointer] for pointer in self._pointers if type(values.get(pointer)) in {int, str}}
        keys: list[_Pointers] = [(pointer,) for pointer in named]
        for key in [*keys, *permutations([pointer for pointer in named if pointer in self._paired], 2)]:
            if key in self._unfit:
                continue
            lives = memory.setdefault(key, {})
            name = tuple([named[pointer] for pointer in key])
            # The one of the last event is the last one.
            life = lives.pop(name, [])
            lives[name] = life
            if life[-2:] != [event.type] * 2:
                life.append(event.type)
            if len(life) > _LONGEST_LIFE or len(lives) > _MOST_IN_STREAM:
                self._unfit.add(key)
                lives.clear()
            self._events[key] += 1

    def end(self, stream: RecordedStream) -> None:
        """End a stream."""
        for key, lives in stream.memory.get(self, {}).items() if stream.is_whole else ():
            known = self._lives[key]
            if lives and not stream.is_complete:
                self._unfinished[key][tuple(lives.popitem()[1])] += 1
            known.update(map(tuple, lives.values()))
            if len(self._names[key]) < 2:
                self._names[key].update(islice((each for each, life in lives.items() if len(set(life)) > 1), 2))
            if len(known) > _MOST_KINDS:
                self._unfit.add(key)

    def find(self) -> list[FoundEntity]:
        """Return the entities, those inside others after them."""
        found = [each for key in sorted(self._lives) if key not in self._unfit for each in self._find(key)]
        outer = _best([each for each in found if len(each.key) == 1])
        nested: dict[object, FoundEntity] = {}
        parents = set()
        # What has more events is outside.
        for parent in sorted(outer, key=lambda each: (-each.events, each.key)):
            if _ends(parent) not in nested:
                inner = [each for each in found if len(each.key) > 1 and each.key[0] == parent.key[0]]
                parents.add(_ends(parent))
                for each in _best(inner):
                    if _ends(each) not in parents and not {*each.opens} & {*parent.opens, *parent.closes}:
                        nested.setdefault(_ends(each), replace(each, within=parent.key[0]))
        both = [*nested.values(), *(each for each in outer if _ends(each) not in nested)]
        names: dict[str, str] = {}
        named: list[FoundEntity] = []
        for each in sorted(both, key=lambda each: (len(each.key), -each.count, each.key))[:_MOST_ENTITIES]:
            if each.within is not None and each.within not in names:
                continue
            name = unique_name(_entity_name(each), names.values())
            names.setdefault(each.key[0], name)
            named.append(replace(each, name=name, within=None if each.within is None else names[each.within]))
        return named

    def _find(self, key: _Pointers) -> Iterator[FoundEntity]:
        """Yield the entities with a key: if one leaves out some types, another one may have these."""
        if len(self._names[key]) == 1 and not _INDEX.search(key[-1]):
            # A value that is always the same names nothing, unless it is the index of the only one.
            return
        lives = self._lives[key].copy()
        lives.update({life: number for life, number in self._unfinished[key].items() if life in lives})
        for _ in range(_MOST_OF_KEY):
            found = (
                _find_ends(key, lives)
                or _find_ends(key, _merge(lives, _split), reopens=True)
                or _find_ends(key, _without_beginnings(lives))
            )
            if found is None:
                return
            yield replace(found, events=self._events[key])
            if found.continues is None:
                return
            lives = _without_types(lives, {*found.opens, *found.closes, *found.continues})


def _merge(lives: Mapping[_Life, int], change: Callable[[_Life], Iterable[_Life]]) -> Counter[_Life]:
    """Return changed lives with their numbers, without empty ones."""
    changed = Counter[_Life]()
    for life, number in lives.items():
        for part in filter(None, change(life)):
            changed[part] += number
    return changed


def _without_types(lives: Mapping[_Life, int], types: set[str]) -> Counter[_Life]:
    return _merge(lives, lambda life: [tuple(each for each in life if each not in types)])


def _without_beginnings(lives: Mapping[_Life, int]) -> dict[_Life, int]:
    """Return the lives that are not the beginning of another one, as those are that an error ends."""
    beginnings = {life[:end] for life in lives for end in range(1, len(life))}
    return {life: number for life, number in lives.items() if life not in beginnings}


def _split(life: _Life) -> Iterator[_Life]:
    """Yield the parts of a life that begin as it begins."""
    starts = [index for index, each in enumerate(life) if each == life[0]]
    yield from (life[start:end] for start, end in pairwise([*starts, len(life)]))


def _find_ends(key: _Pointers, lives: Mapping[_Life, int], *, reopens: bool = False) -> FoundEntity | None:
    """Return the entity with some lives, if some types open it and others close it; types may be left out."""
    dropped = set[str]()
    groups = Counter[str]()
    for life, number in lives.items():
        groups.update(dict.fromkeys(life, number))
    for _ in range(_MOST_DROPPED):
        kept = _without_types(lives, dropped)
        opens, closes = {life[0] for life in kept}, {life[-1] for life in kept}
        if not (misfits := _misfits(kept, opens, closes)):
            break
        dropped.add(min(misfits, key=lambda each: (groups[each], each)))
    else:
        return None
    others = {each for life in kept for each in life} - opens - closes
    if not kept or len(opens) > _MOST_ENDS or len(closes) > _MOST_ENDS or len(others) > MOST_NAMES:
        return None
    for life in lives:
        last = max((index for index, each in enumerate(life) if each not in dropped), default=0)
        if dropped.intersection(life[:last]):
            # What is left out is a part of it.
            return None
    # Without a list, all events with the key continue it.
    continues = tuple(sorted(others or closes)) if dropped else None
    ends = tuple(sorted(opens)), tuple(sorted(closes))
    return FoundEntity(key, *ends, continues, kept.total(), reopens=reopens)


def _may_be_key(pointer: str, field: FieldSurvey) -> bool:
    """Whether the values at a pointer can name things: they differ, and are no numbers of events and no times."""
    if field.is_same and len(field.firsts) == 1 and not _INDEX.search(pointer):
        return False
    is_counter = field.is_counter and field.compared > 0
    are_times = any(is_utc_time(each) if isinstance(each, str) else each > _LARGEST_KEY for each in field.firsts)
    return field.kinds <= {str, int} and not is_counter and not are_times


def _misfits(lives: Iterable[_Life], opens: set[str], closes: set[str]) -> set[str]:
    """Return the types that are the first or the last of a life, but not of all lives, or more than once."""
    misfits = opens & closes
    for life in lives:
        for ends, end in ((opens, life[0]), (closes, life[-1])):
            inside = [each for each in life if each in ends]
            misfits |= set(inside) if inside != [end] else set()
    return misfits


def one_or_list(texts: Sequence[str]) -> str | list[str]:
    """Return texts as a contract has them."""
    return texts[0] if len(texts) == 1 else list(texts)


def _ends(each: FoundEntity) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return each.opens, each.closes


def _fitness(each: FoundEntity) -> tuple[bool, bool, int, int, _Pointers]:
    """Return by what entities are sorted: best are those whose key no other events have, and with many events."""
    return each.reopens, each.continues is not None, -each.count, -each.events, each.key


def _best(found: Sequence[FoundEntity]) -> list[FoundEntity]:
    """Return one entity for each pair of types that open and close."""
    best: dict[object, FoundEntity] = {}
    for each in sorted(found, key=_fitness):
        best.setdefault(_ends(each), each)
    return list(best.values())


def _entity_name(each: FoundEntity) -> str:
    """Return a name from the types that open it, or from its key."""
    stem = _END.sub("", each.opens[0])
    candidates = [stem.rpartition(".")[2] if stem != each.opens[0] else "", each.key[-1].rpartition("/")[2]]
    for text in filter(None, candidates):
        name = re.sub(r"_(?:id|index|name|number)$", "", slug(text).replace("-", "_"))
        try:
            check_entity_name(name)
        except ValueError:
            continue
        return name
    return "entity"


@dataclass(slots=True)
class _Text:
    joined: JoinedText = dataclass_field(default_factory=JoinedText)
    pieces: int = 0


@dataclass(frozen=True, slots=True)
class FoundText:
    """A text that arrives in pieces, and then as a whole."""

    entity: FoundEntity
    deltas: str
    """The type of the pieces."""
    piece: str
    """The pointer to the text of a piece."""
    final: str
    whole: str
    count: int
    """How many whole texts were compared."""


class TextSearch:
    """Joins the texts of events of entities, and compares them with later texts."""

    def __init__(self, entities: Sequence[FoundEntity], survey: Survey) -> None:
        self._entities = [(each, each.entity()) for each in entities]
        self._pieces: Mapping[str, list[str]] = {
            name: [pointer for pointer, kind in sorted(type_.fields, key=str) if kind is str and pointer != "id"]
            for name, type_ in survey.types.items()
        }
        self._found: dict[tuple[int, str, str, str, str], list[int]] = {}
        """For each pair of places how many texts are equal, equal and in several pieces, or different."""

    def add(self, stream: RecordedStream, event: Event) -> None:
        """Add an event of a stream."""
        if not stream.is_from_start:
            return
        memory = stream.memory.setdefault(self, {})
        values: dict[str, Scalar] | None = None
        for index, (_, entity) in enumerate(self._entities):
            if not entity.concerns(event.type) or (key := entity.read_key(event.value)) is None:
                continue
            values = dict(leaves(event.value)) if values is None else values
            self._compare(index, event, values, memory.get((index, key), {}))
            if not entity.opens.matches(event.type) and not entity.closes.matches(event.type):
                self._join(event, values, memory, (index, key))

    def end(self, stream: RecordedStream) -> None:
        """End a stream, which needs nothing."""

    def _join(
        self,
        event: Event,
        values: dict[str, Scalar],
        memory: dict[tuple[int, Key], dict[tuple[str, str], _Text]],
        key: tuple[int, Key],
    ) -> None:
        if key not in memory and len(memory) >= _MOST_TEXTS:
            return
        texts = memory.setdefault(key, {})
        for pointer in self._pieces.get(event.type, ()):
            if type(value := values.get(pointer)) is str:
                text = texts.setdefault((event.type, pointer), _Text())
                text.joined.add(value)
                text.pieces += 1

    def _compare(
        self, index: int, event: Event, values: dict[str, Scalar], texts: Mapping[tuple[str, str], _Text]
    ) -> None:
        wholes = [(pointer, value) for pointer, value in values.items() if type(value) is str]
        for (type_, piece), text in texts.items():
            if type_ == event.type or not text.joined.length:
                continue
            for pointer, value in wholes:
                key = index, type_, piece, event.type, pointer
                if key not in self._found and len(self._found) >= _MOST_KINDS * 10:
                    continue
                is_equal = len(value) == text.joined.length and _digest(value) == text.joined.hash.digest()
                counts = self._found.setdefault(key, [0, 0, 0])
                counts[0] += is_equal
                counts[1] += is_equal and text.pieces > 1
                counts[2] += not is_equal

    def find(self) -> Iterator[FoundText]:
        """Yield the texts, of nested entities only the innermost one."""
        best: dict[tuple[str, str, str, str], FoundText] = {}
        for (index, *places), (equal, several, different) in sorted(self._found.items()):
            if several and not different:
                deltas, piece, final, whole = places
                best[deltas, piece, final, whole] = FoundText(
                    self._entities[index][0], deltas, piece, final, whole, equal
                )
        yield from (best[key] for key in sorted(best))


def _digest(text: str) -> bytes:
    joined = JoinedText()
    joined.add(text)
    return joined.hash.digest()
