"""Bodies of event streams for tests, an event for each line."""

from textwrap import dedent

LOST = b"(lost)"
"""A chunk that was not recorded."""


def events(text: str) -> bytes:
    """Return a body with an event for each line; a line that begins with a brace is its data."""
    lines = dedent(text).strip().splitlines()
    return "".join(f"data: {line}\n\n" if line.startswith("{") else f"{line}\n\n" for line in lines).encode()
