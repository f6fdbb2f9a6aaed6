"""What a test fails by when wiretape itself does."""

from pathlib import Path

import pytest

from wiretape.config import Config
from wiretape_replay.testing.choices import ClientCriteria
from wiretape_replay.testing.verdict import wrong


@pytest.mark.parametrize(("fail_on", "fails"), [("error", True), ("never", False)])
def test_checks_that_failed_fail_the_test_that_relies_on_them(fail_on, fails):
    choices, kept = ClientCriteria.of({"fail_on": fail_on}, Config()), []
    text = wrong([], [], choices, Path("replayed.db"), lambda: kept.append(1), checks_failed="KeyError: 'e1\\n'")
    said = [
        "The checks of wiretape failed, so there may be more to find: KeyError: 'e1\\n'.",
        "What passed is recorded in replayed.db.",
    ]
    assert (text, kept) == (("\n".join(said), [1]) if fails else (None, []))


def test_names_that_the_package_does_not_have_are_told():
    import wiretape_replay  # noqa: PLC0415

    with pytest.raises(AttributeError, match="has no attribute 'serve'"):
        _ = wiretape_replay.serve
