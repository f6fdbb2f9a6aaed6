"""Traffic of one exchange, for tests that say in a line what passes."""

import pytest
from tables import read_tables
from wire import Wire, durable_event

from wiretape.checker import CATALOGUE


@pytest.fixture
def wire(request):
    """A checker before which traffic can pass; it knows the `FAMILIES` of rules that the module names, or all."""
    families = getattr(request.module, "FAMILIES", None)
    return Wire(off=frozenset(code for code in CATALOGUE if families is not None and code[:-3] not in families))


@pytest.fixture
def event():
    """Makes a durable event as it stands in a stream: `event(sequence, type, **changes of the JSON)`."""
    return durable_event


def pytest_generate_tests(metafunc):
    """A test of a `case` takes each row of the `streams` and the `answers` in the tables of its module."""
    if "case" in metafunc.fixturenames:
        rows = list(_rows(read_tables(metafunc.module.__file__)))
        metafunc.parametrize("case", rows, ids=[case["of"] for _, case, *_ in rows])


def _rows(tables):
    for kind in ("streams", "answers"):
        for case in tables.get(kind, ()):
            given = case.get("with", {})
            for how in given if isinstance(given, list) else [given]:
                for codes, rows in case["found"].items():
                    for row in rows:
                        yield kind, case, how, codes.split(), row if isinstance(row, dict) else {"sent": row}
