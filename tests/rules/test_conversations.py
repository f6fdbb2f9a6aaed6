"""Whole conversations of services and clients: what keeps the specification gives nothing, one defect one finding."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from wiretape.rules import Checker, Severity

SEEDS = st.integers(0, 2**32)


def judged(seen):
    checker = Checker()
    found = [finding for observation in seen for finding in checker.feed(observation)]
    return found + checker.finish(), checker.verdicts()


@settings(max_examples=100)
@given(SEEDS, st.integers(1, 120))
def test_a_conversation_that_keeps_the_specification_gives_nothing_above_a_note(worlds, seed, steps):
    world = worlds.begin(random.Random(seed))
    for _ in range(steps):
        worlds.step(world)
    worlds.settle(world)
    found, _ = judged(world.seen)
    assert [finding for finding in found if finding.severity is not Severity.NOTE] == []
