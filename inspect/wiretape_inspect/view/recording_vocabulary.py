"""The vocabularies of the contracts of a recording."""

from collections.abc import Mapping

from wiretape.contract.contract_facts import ContractFacts
from wiretape.contract.vocabulary import Vocabulary, vocabulary_of
from wiretape.recording import Exchange, Recording

Keys = Mapping[str, str]
"""The keys of an event, by the names of the entities."""


def vocabularies_of(recording: Recording) -> tuple[Vocabulary, ...]:
    """Return the vocabularies of the contracts of a recording."""
    return tuple(map(vocabulary_of, recording.contracts.contracts))


def vocabulary_for(exchange: Exchange) -> Vocabulary:
    """Return the vocabulary of the contract that an exchange belongs to; that of the first if it belongs to none."""
    found = exchange.facts
    return vocabulary_of(next(iter(exchange.contracts.contracts), _NO_CONTRACT) if found is None else found.contract)


_NO_CONTRACT = ContractFacts("", ())


def request_keys(exchange: Exchange) -> Keys:
    """Return the keys of the entities that the path of a request names."""
    return {} if exchange.facts is None else exchange.facts.keys
