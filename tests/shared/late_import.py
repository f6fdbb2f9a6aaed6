"""Import what only some tests need when they run: each worker collects all tests, and mitmproxy takes a second."""

from importlib import import_module


class LateModule:
    """A module that is imported when one of its names is used: `http = LateModule("mitmproxy.http")`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):  # pytest asks for some when it collects tests
            raise AttributeError(name)
        return getattr(import_module(self._name), name)
