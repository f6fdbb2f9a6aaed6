"""The text of a vector, for tests that change it."""

import re

from wiretape.rules.vectors import vector_files


def vector_text(code, name):
    """Return the table of a vector as a TOML document of its own."""
    text = vector_files()[code].read_text("utf-8")
    tables = re.split(r"^\[([a-z0-9-]+)\]\n", text, flags=re.MULTILINE)
    return tables[tables.index(name) + 1].replace(f"[[{name}.", "[[")
