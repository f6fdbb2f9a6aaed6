"""A recording in the debugger's page: one file that needs nothing else.  `debugging` says what it holds."""

from wiretape_inspect.embedding.document import page_with

__all__ = ["page_with"]
