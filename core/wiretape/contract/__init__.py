"""Contracts: what streams of an API have to look like, as data that is built from a file.

A contract has operations, describes how to read the facts of an event, and declares rules with primitives.
The rules are ordinary rules of `wiretape.rules`; the checker runs them on the traffic of the operations.

A rule that no primitive can express is a function `(event: Event, stream: Stream) -> Outcome`.  It reads the facts of
an event (`type`, `json`, `cursor`, `sequence`, `text`, `is_durable`), and keeps what it has to remember in
`stream.memory`.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wiretape.contract.contract_builder import load_contract as load_contract
    from wiretape.contract.contract_files import CodeUse as CodeUse
    from wiretape.contract.contract_model import Contract as Contract
    from wiretape.contract.contract_operation import Operation as Operation
    from wiretape.contract.contract_stream import ContractStream as Stream  # noqa: F401 - in the table
    from wiretape.event import Event as Event
    from wiretape.event_format import Entity as Entity
    from wiretape.event_format import EventType as EventType
    from wiretape.rules.catalogue import HELD as HELD
    from wiretape.rules.catalogue import Inconclusive as Inconclusive
    from wiretape.rules.catalogue import Outcome as Outcome
    from wiretape.rules.catalogue import Problem as Problem
    from wiretape.rules.catalogue import Rule as Rule
    from wiretape.rules.catalogue import problem as problem

_MODULES = {
    "wiretape.contract.contract_builder": ("load_contract",),
    "wiretape.contract.contract_operation": ("Operation",),
    "wiretape.contract.contract_files": ("CodeUse",),
    "wiretape.contract.contract_model": ("Contract",),
    "wiretape.contract.contract_stream": ("Stream",),
    "wiretape.event": ("Event",),
    "wiretape.event_format": ("Entity", "EventType"),
    "wiretape.rules.catalogue": ("HELD", "Inconclusive", "Outcome", "Problem", "Rule", "problem"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [*_MODULE_OF]  # noqa: PLE0604 - the names of the table


def __getattr__(name: str) -> object:
    """Import a public name when it is first used: most commands need only the facts of contracts."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'wiretape.contract' has no attribute {name!r}")
    return getattr(import_module(_MODULE_OF[name]), "ContractStream" if name == "Stream" else name)
