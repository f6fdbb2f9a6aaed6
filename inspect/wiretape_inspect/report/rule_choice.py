"""Which rules check a recording: those of contracts that the user names, of its own, or that its requests suggest."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from wiretape.checker import CATALOGUE, Settings, UnknownCodeError, codes_of
from wiretape.checker.default_rules import default_contracts
from wiretape.config import Config, override_base
from wiretape.contract.contract_builder import load_contract, load_recorded
from wiretape.contract.contract_files import CodeUse
from wiretape.contract.contract_model import Contract
from wiretape.recording import Recording
from wiretape.rules.engine import Engine
from wiretape.rules.exchange import ScopeCount

ANY_STREAM = "sse"
"""The contract of traffic that no other rules are about."""


@dataclass(frozen=True, slots=True)
class ChosenRules:
    """The rules for one recording."""

    settings: Settings
    selected: frozenset[str]
    """The codes of the rules to check."""
    foreign: tuple[ScopeCount, ...] = ()
    """Why no exchange is the service's, if that is the reason for the choice."""


@dataclass(frozen=True, slots=True)
class RuleChoice:
    """Chooses the rules for each recording.

    Contracts of the command line or the configuration come first, then those that the recording stores.  Without any,
    the built-in rules are chosen if an exchange is the service's, and otherwise the contract `sse`.
    """

    config: Config
    contracts: tuple[Contract, ...] = ()
    """Those of the command line, or else of the configuration."""
    base: str | None = None
    """The base of the service, if the command line names it."""
    select: Collection[str] = ()
    ignore: Collection[str] = ()
    code: CodeUse = CodeUse.SKIP
    """What happens to the code that contracts of recordings name."""

    def __post_init__(self) -> None:
        """Raise InputError if the rules are known, but cannot be chosen."""
        if self.is_made:
            self._rules(self.contracts)

    @property
    def is_made(self) -> bool:
        """Whether the rules are the same for every recording."""
        return bool(self.contracts) or self.base is not None

    def rules_for(self, recording: Recording) -> ChosenRules:
        """Return the rules for a recording.  Raises InputError."""
        if self.is_made:
            return self._rules(self.contracts)
        if recording.info.contracts is not None:
            return self._rules(load_recorded(recording.info.contracts, str(recording.path), self.code))
        if foreign := self._foreign_traffic(recording):
            return replace(self._rules((load_contract(ANY_STREAM),)), foreign=foreign)
        return self._rules(())

    def _rules(self, contracts: tuple[Contract, ...]) -> ChosenRules:
        config = self.config.with_contracts(contracts)
        return ChosenRules(override_base(config.settings, self.base), config.rule_codes(self.select, self.ignore))

    def _foreign_traffic(self, recording: Recording) -> tuple[ScopeCount, ...]:
        """Return why no exchange is the service's; empty if one is, there are none, or the user means the service."""
        named = [*(self.select or self.config.select), *(self.ignore or self.config.ignore)]
        is_meant = self.config.settings.base is not None or recording.info.probe is not None
        if is_meant or any(map(_is_about_service, named)):
            return ()
        engine, upstream = Engine((), frozenset(), {}), recording.info.upstream
        traffics = [each.follow(engine, (), self.config.settings, upstream) for each in default_contracts()]
        others = 0
        for exchange in recording.exchanges():
            if any(traffic.start(exchange.request) is not None for traffic in traffics):
                return ()
            others += 1
        return tuple(count for traffic in traffics for count in traffic.scopes(others))


def _is_about_service(prefix: str) -> bool:
    """Whether only rules about the service have codes with a prefix."""
    try:
        return not any(CATALOGUE[code].everywhere for code in codes_of(prefix))
    except UnknownCodeError:
        return False
