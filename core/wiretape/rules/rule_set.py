"""Rule sets: rules that come with the traffic that they apply to, beside those that are built in.

The checker passes what it reads to the follower of the rule set in its settings.  The follower runs the rules at
triggers of its own; they are counted and reported like all others.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from wiretape.frame_reader import ReadObservation
from wiretape.rules.catalogue import Rule, Trigger
from wiretape.rules.finding import Location
from wiretape.rules.state.service_traffic import ScopeCount
from wiretape.rules.state.stream_state import EventStream
from wiretape.rules.vectors import Vector


class Located:
    """Something at a location, which is found out only if a rule has something to say about it."""

    __slots__ = ()

    @property
    def location(self) -> Location:
        """Where it is."""
        raise NotImplementedError


RunRules = Callable[[tuple[Any, ...], Located], object]
"""Runs rules with arguments."""


class RuleRunner(Protocol):
    """Runs the rules of a rule set: the engine."""

    def run(self, trigger: Trigger[Any], arguments: tuple[Any, ...], location: Location) -> None:
        """Run the rules of a trigger."""

    def select(self, trigger: Trigger[Any], name: str) -> RunRules:
        """Return what runs the rules of a trigger that concern events of the type `name`."""


class Channel:
    """What several streams of a rule set are positions in; findings can be limited to one for each channel."""


class ChannelStream(EventStream):
    """A stream of a rule set."""

    def __init__(self, exchange: int, channel: Channel) -> None:
        super().__init__(exchange)
        self.channel = channel


class TrafficFollower(Protocol):
    """Follows the traffic that a rule set applies to."""

    def observe(self, read: ReadObservation) -> None:
        """Run the rules that an observation concerns."""

    def scopes(self) -> list[ScopeCount]:
        """Return how many exchanges the rules apply to, and why."""


class RuleSet(Protocol):
    """Rules, and the traffic that they apply to."""

    @property
    def name(self) -> str:
        """What people call it."""

    @property
    def rules(self) -> Sequence[Rule]:
        """The rules."""

    @property
    def catalogue(self) -> Mapping[str, Rule]:
        """The rules by code."""

    def __hash__(self) -> int: ...

    def declaring(self, code: str) -> "RuleSet":
        """Return the rule set with the examples of a rule: this one, or one that it extends."""

    def examples_of(self, code: str) -> Sequence[Vector]:
        """Return the examples of a rule."""

    def follow(self, runner: RuleRunner) -> TrafficFollower:
        """Return a follower of one recording."""
