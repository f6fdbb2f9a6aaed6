"""Traffic of one exchange, for tests that say in a line what passes."""

import pytest
from wire import Wire, durable_event


@pytest.fixture
def wire(request):
    """A checker before which traffic can pass; it knows the `FAMILIES` of rules that the module names, or all."""
    return Wire(families=getattr(request.module, "FAMILIES", None))


@pytest.fixture
def event():
    """Makes a durable event as it stands in a stream: `event(sequence, type, **changes of the JSON)`."""
    return durable_event
