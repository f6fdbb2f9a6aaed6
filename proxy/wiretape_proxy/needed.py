"""mitmproxy's addons one by one: its package of them imports all, and with them LDAP, Flask and more."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec, module_from_spec

_PACKAGE = "mitmproxy.addons"


@contextmanager
def only_needed_addons() -> Iterator[None]:
    """Import no other addons than those that are asked for: a third of the time that a proxy takes to start.

    Whoever imports the whole package afterwards gets it whole.
    """
    spec = find_spec(_PACKAGE) if _PACKAGE not in sys.modules else None
    if spec is None:
        yield
        return
    # The package itself, of which nothing has run: its modules are found by its path.
    sys.modules[_PACKAGE] = module_from_spec(spec)
    try:
        yield
    finally:
        del sys.modules[_PACKAGE]
