"""A recording in the debugger's page: one file that needs nothing else.  `debugging` says what it holds."""

from wiretape_inspect.embedding.document import Held, document, page_of, page_with

__all__ = ["Held", "document", "page_of", "page_with"]
