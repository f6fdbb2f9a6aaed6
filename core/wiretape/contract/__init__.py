"""Contracts: what streams of an API have to look like, as data that is built from a file.

A contract has operations, describes how to read the facts of an event, and declares rules with primitives.
The rules are ordinary rules of `wiretape.rules`; the checker runs them on the traffic of the operations.

A rule that no primitive can express is a function `(event: Event, stream: Stream) -> Outcome`.  It reads the facts of
an event (`type`, `json`, `cursor`, `sequence`, `text`, `is_durable`), and keeps what it has to remember in
`stream.memory`.
"""

from wiretape.contract.contract_builder import load_contract as load_contract
from wiretape.contract.contract_files import CodeUse as CodeUse
from wiretape.contract.contract_model import Contract as Contract
from wiretape.contract.contract_traffic import ContractStream as Stream
from wiretape.contract.facts import EventFacts as Event
from wiretape.rules.catalogue import HELD as HELD
from wiretape.rules.catalogue import Inconclusive as Inconclusive
from wiretape.rules.catalogue import Outcome as Outcome
from wiretape.rules.catalogue import Problem as Problem
from wiretape.rules.catalogue import problem as problem

__all__ = [
    "HELD",
    "CodeUse",
    "Contract",
    "Event",
    "Inconclusive",
    "Outcome",
    "Problem",
    "Stream",
    "load_contract",
    "problem",
]
