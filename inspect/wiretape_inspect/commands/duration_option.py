"""Options that take a length of time."""

from collections.abc import Callable

import click

from wiretape.safe_text import printable
from wiretape_inspect.view.filter_grammar import parse_duration


def time_like(example: str) -> Callable[[click.Context, click.Parameter, str | None], int | None]:
    """What makes nanoseconds of the value of such an option, and shows an `example` where it is none."""

    def read(_context: click.Context, _parameter: click.Parameter, given: str | None) -> int | None:
        try:
            return None if given is None else parse_duration(given)
        except ValueError:
            raise click.BadParameter(
                f"{printable(given or '')!r} is no time: write one with its unit, like {example}."
            ) from None

    return read
