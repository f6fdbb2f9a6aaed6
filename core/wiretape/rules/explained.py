"""For each rule in plain words why it matters, and when a recording does not bring it up."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class Explained:
    """What the catalogue does not say about a rule."""

    why: str
    """What goes wrong for whom when the rule is broken."""
    unexercised: str
    """When the verdict is `not-exercised`."""
    knowing: str = ""
    """Where the rule stops, and what may surprise about it; empty when there is nothing to say."""


@cache
def explained() -> dict[str, Explained]:
    """What there is to say of each rule, by its code."""
    text = files(__package__).joinpath("explained.toml").read_text("utf-8")
    return {code: Explained(**table) for code, table in tomllib.loads(text).items()}
