"""The rules, and the checker that runs them over observations."""

from importlib import import_module
from typing import TYPE_CHECKING

from wiretape.event import Event as Event
from wiretape.event import Shape as Shape
from wiretape.rules.catalogue import AFTER_COMMENT as AFTER_COMMENT
from wiretape.rules.catalogue import ANY_SHAPE as ANY_SHAPE
from wiretape.rules.catalogue import ERROR_RESPONSE as ERROR_RESPONSE
from wiretape.rules.catalogue import EVENT as EVENT
from wiretape.rules.catalogue import EXCHANGE_END as EXCHANGE_END
from wiretape.rules.catalogue import HELD as HELD
from wiretape.rules.catalogue import REPLAY_END as REPLAY_END
from wiretape.rules.catalogue import REQUEST as REQUEST
from wiretape.rules.catalogue import RESPONSE as RESPONSE
from wiretape.rules.catalogue import SILENCE as SILENCE
from wiretape.rules.catalogue import STREAM_END as STREAM_END
from wiretape.rules.catalogue import STREAM_RESPONSE as STREAM_RESPONSE
from wiretape.rules.catalogue import SUCCESS_RESPONSE as SUCCESS_RESPONSE
from wiretape.rules.catalogue import Basis as Basis
from wiretape.rules.catalogue import Check as Check
from wiretape.rules.catalogue import Explanation as Explanation
from wiretape.rules.catalogue import Inconclusive as Inconclusive
from wiretape.rules.catalogue import Later as Later
from wiretape.rules.catalogue import Need as Need
from wiretape.rules.catalogue import Outcome as Outcome
from wiretape.rules.catalogue import Problem as Problem
from wiretape.rules.catalogue import Rule as Rule
from wiretape.rules.catalogue import RuleSet as RuleSet
from wiretape.rules.catalogue import Scope as Scope
from wiretape.rules.catalogue import Trigger as Trigger
from wiretape.rules.catalogue import catalogue_of as catalogue_of
from wiretape.rules.catalogue import check as check
from wiretape.rules.catalogue import problem as problem
from wiretape.rules.catalogue import rule as rule
from wiretape.rules.catalogue import rules_in as rules_in
from wiretape.rules.exchange import EventStream as EventStream
from wiretape.rules.exchange import ScopeCount as ScopeCount
from wiretape.rules.exchange import ScopeReason as ScopeReason
from wiretape.rules.finding import Finding as Finding
from wiretape.rules.finding import Location as Location
from wiretape.rules.finding import Party as Party
from wiretape.rules.finding import Severity as Severity
from wiretape.rules.finding import Tally as Tally
from wiretape.rules.finding import Verdict as Verdict
from wiretape.rules.finding import describe as describe
from wiretape.rules.finding import format_number as format_number
from wiretape.rules.finding import quote as quote
from wiretape.rules.state.event_log import json_hash as json_hash
from wiretape.rules.state.exchange_state import ExchangeState as ExchangeState
from wiretape.rules.state.response_body import ErrorBody as ErrorBody
from wiretape.rules.state.response_body import SuccessBody as SuccessBody
from wiretape.rules.state.service_traffic import ServiceBase as ServiceBase
from wiretape.rules.state.service_traffic import parse_service_base as parse_service_base
from wiretape.rules.state.stream_state import StreamState as StreamState

if TYPE_CHECKING:
    from wiretape.rules.checker import Checker as Checker
    from wiretape.rules.families import BUILT_IN as BUILT_IN
    from wiretape.rules.families import CATALOGUE as CATALOGUE
    from wiretape.rules.families import explanation_of as explanation_of
    from wiretape.rules.selection import EVERY as EVERY
    from wiretape.rules.selection import Settings as Settings
    from wiretape.rules.selection import UnknownCodeError as UnknownCodeError
    from wiretape.rules.selection import codes_of as codes_of
    from wiretape.rules.selection import family_names as family_names
    from wiretape.rules.selection import selected as selected
    from wiretape.rules.selection import weight as weight

_LATE = {
    "Checker": "checker",
    "BUILT_IN": "families",
    "CATALOGUE": "families",
    "explanation_of": "families",
    "EVERY": "selection",
    "Settings": "selection",
    "UnknownCodeError": "selection",
    "codes_of": "selection",
    "family_names": "selection",
    "selected": "selection",
    "weight": "selection",
}
"""The names that need the contract of the service, whose modules import others of this package."""


def __getattr__(name: str) -> object:
    if name not in _LATE:
        raise AttributeError(f"module 'wiretape.rules' has no attribute {name!r}")
    return getattr(import_module(f"wiretape.rules.{_LATE[name]}"), name)
