"""Learn a contract from recordings, which are read several times."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from wiretape.checker import CATALOGUE, Checker, Settings
from wiretape.contract.contract_builder import build_contract
from wiretape.contract.contract_files import ContractFiles
from wiretape.contract.contract_model import Contract
from wiretape.errors import InputError
from wiretape.event_format import PLAIN, EventFormat
from wiretape.labels import count_of
from wiretape.observations import RequestStarted
from wiretape.recording import Recording
from wiretape_inspect.learning.draft_text import contract_text
from wiretape_inspect.learning.entity_search import EntitySearch, TextSearch
from wiretape_inspect.learning.example_search import ExampleSearch, Sample, Samples
from wiretape_inspect.learning.field_survey import Survey, TypePlaces
from wiretape_inspect.learning.path_templates import FoundOperation, PathTemplates
from wiretape_inspect.learning.recorded_streams import Collector, digest_of, opens_stream, read_streams
from wiretape_inspect.learning.rule_drafts import ContractDraft, Drafter, RuleDraft

_MOST_RULES = 200
_LARGEST = 1_000_000
_FILE = "learned.toml"
_HEADER = """\
# Learned by `wiretape contract learn` from {what}.
# A recording shows what happened, not what has to happen: keep the rules that the API promises.
# A rule that is a comment was seen fewer than {least} times, or on too few streams.

"""


@dataclass(frozen=True, slots=True)
class Learned:
    """What recordings show about their API."""

    draft: ContractDraft
    survey: Survey
    samples: list[Sample]
    """Streams for examples."""


class Learner:
    """Learns from some recordings, in an order of its own."""

    def __init__(self, recordings: Sequence[Recording], least: int) -> None:
        """What has fewer than `least` observations is weak.  Raises InputError."""
        # One that is given twice shows nothing more.
        known = {digest_of(each.observations()) if len(recordings) > 1 else b"": each for each in recordings}
        self.recordings = [known[digest] for digest in sorted(known)]
        self._least = least

    def new_contract(self, name: str) -> str:
        """Return the text of a contract with a name.  Raises InputError."""
        operations = self.operations()
        places = TypePlaces()
        self._read([places])
        type_place = places.choose()
        about = {"contract": name, "title": f"What recordings of {name} show", "extends": "sse"}
        learned = self.learn(operations, type_place, name)
        survey, draft = learned.survey, learned.draft
        set_codes(draft.rules, _family(name))
        contract = _build(contract_text(draft, about, all_rules=True))
        draft.rules, others = self.keep_true(draft.rules, contract)
        if any(code.startswith("STR") for code in others):
            del about["extends"]
        set_codes(draft.rules, _family(name))
        contract = _build(contract_text(draft, about, all_rules=True))
        ExampleSearch(contract, draft.rules).run(learned.samples)
        what = f"{count_of(survey.streams, 'stream')} with {count_of(survey.events, 'event')}"
        header = _HEADER.format(what=f"{count_of(len(self.recordings), 'recording')}: {what}", least=self._least)
        text = contract_text(draft, about, header=header)
        if len(text.encode()) > _LARGEST:
            for rule in draft.rules:
                rule.keeps = None
            text = contract_text(draft, about, header=header)
        if len(text.encode()) > _LARGEST:
            raise InputError("The contract would be larger than 1 MB: learn from recordings with smaller events.")
        return text

    def learn(self, operations: Sequence[FoundOperation], type_place: str, name: str) -> Learned:
        """Return what the recordings show, as tables, and rules that have no code, no examples, and may be broken."""
        survey = Survey(list(operations))
        event_format = EventFormat(type=type_place)
        self._read([survey], event_format)
        drafter = Drafter(survey, operations, type_place, self._least)
        draft = ContractDraft(drafter.operations(), drafter.event([]), {}, {}, [])
        facts = _build(contract_text(draft, {"contract": name}))
        names_channel = any("channel" in each.matches for each in survey.fields.values())
        search, samples = EntitySearch(survey, type_place), Samples(operations, names_channel=names_channel)
        self._read([search, samples], event_format, facts)
        entities = search.find()
        texts = TextSearch(entities, survey)
        if entities:
            self._read([texts], event_format, facts)
        found = list(texts.find())
        draft.event, draft.types = drafter.event(found), drafter.types()
        draft.entities = {each.name: each.document() for each in entities}
        draft.rules = drafter.rules(entities, found)[:_MOST_RULES]
        return Learned(draft, survey, samples.all())

    def keep_true(self, rules: Sequence[RuleDraft], contract: Contract) -> tuple[list[RuleDraft], set[str]]:
        """Return the rules of a contract without a finding, and the codes of its other rules with findings.

        Those that were never exercised become weak.
        """
        broken, held = set[str](), Counter[str]()
        for recording in self.recordings:
            checker = Checker(Settings(contracts=(contract,)))
            broken.update(finding.code for finding in checker.check(recording.observations()))
            held.update({code: tally.held for code, tally in checker.tallies().items()})
        for rule in rules:
            rule.is_weak = rule.is_weak or not held[rule.code]
        return [rule for rule in rules if rule.code not in broken], broken - {rule.code for rule in rules}

    def operations(self) -> list[FoundOperation]:
        """Return the operations of the requests, at least one of them with a stream.  Raises InputError."""
        templates = PathTemplates()
        for recording in self.recordings:
            for exchange in recording.exchanges():
                response = exchange.response
                if response is not None and 200 <= response.status < 300:
                    templates.add(exchange.request, is_stream=opens_stream(exchange.request, response))
        found = templates.find()
        if not found or not found[0].streams:
            raise InputError("The recordings have no event stream to learn from: record a request that opens one.")
        return found

    def _read(
        self, collectors: Sequence[Collector], event_format: EventFormat = PLAIN, contract: Contract | None = None
    ) -> None:
        def begins_at_start(request: RequestStarted) -> bool:
            operation = None if contract is None else contract.find_operation(request.method, request.target)[0]
            if operation is None or not operation.begins_at_start:
                return False
            return operation.cursor is None or operation.cursor.read(request) is None

        for recording in self.recordings:
            read_streams(recording.observations(), collectors, event_format, begins_at_start)


def set_codes(rules: Sequence[RuleDraft], family: str, first: int = 1) -> None:
    """Give rules their codes."""
    for number, rule in enumerate(rules, first):
        rule.code = f"{family}{number:03}"


def _family(name: str) -> str:
    """Return the letters of the codes of a contract with a name."""
    letters = re.sub("[^A-Z]", "", name.upper())[:8]
    taken = {code.rstrip("0123456789") for code in CATALOGUE} | {"STR"}
    return letters if len(letters) > 1 and letters not in taken else f"{letters}LRN"


def _build(text: str) -> Contract:
    return build_contract(ContractFiles(None, {_FILE: text}), _FILE)
