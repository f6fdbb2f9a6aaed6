"""A recording in datasette: what its tables, views and columns mean, and what to ask them."""

from wiretape_inspect.datasette.documents import Documents, documents

__all__ = ["Documents", "documents"]
