"""The failure message of a test if the checks of wiretape fail."""

from pathlib import Path

import pytest

from wiretape.config import Config
from wiretape_replay.testing.client_criteria import ClientCriteria, failure_message


@pytest.mark.parametrize(("fail_on", "fails"), [("error", True), ("never", False)])
def test_an_error_of_the_checks_fails_the_test(fail_on, fails):
    criteria, kept = ClientCriteria.of({"fail_on": fail_on}, Config()), []
    text = failure_message(
        [], [], criteria, Path("replayed.db"), lambda: kept.append(1), checks_failed="KeyError: 'e1\\n'"
    )
    lines = [
        "wiretape's checks failed, so there may be more findings: KeyError: 'e1\\n'.",
        "The traffic is recorded in replayed.db.",
    ]
    assert (text, kept) == (("\n".join(lines), [1]) if fails else (None, []))


def test_an_unknown_name_of_the_package_is_an_attribute_error():
    import wiretape_replay  # noqa: PLC0415

    with pytest.raises(AttributeError, match="has no attribute 'serve'"):
        _ = wiretape_replay.serve
