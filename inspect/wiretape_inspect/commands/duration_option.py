"""The type of options whose value is a duration."""

import click

from wiretape.safe_text import printable
from wiretape_inspect.view.filter_grammar import parse_duration


class Duration(click.ParamType[int]):
    """A duration with its unit, in nanoseconds."""

    name = "duration"

    def __init__(self, example: str) -> None:
        """`example` is what an error message suggests."""
        self._example = example

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse the value.  Raises click.BadParameter."""
        if isinstance(value, int):
            return value
        try:
            return parse_duration(str(value))
        except ValueError:
            shown = printable(str(value))
            self.fail(f"{shown!r} is not a duration: expected a number and a unit, like {self._example}.", param, ctx)
