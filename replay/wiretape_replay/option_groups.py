"""A command whose help sorts its options into groups."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

_F = TypeVar("_F", bound=Callable[..., Any])


class _Option(click.Option):
    """An option that belongs to a group of the help."""

    def __init__(self, *args: Any, group: str, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.group = group


class GroupedCommand(click.Command):
    """Lists the groups in the order of their first options, and options without a group last."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See click.Command."""
        groups: dict[str, list[tuple[str, str]]] = {}
        options = [parameter for parameter in self.get_params(ctx) if isinstance(parameter, click.Option)]
        for option in sorted(options, key=lambda option: not isinstance(option, _Option)):
            record = option.get_help_record(ctx)
            if record is not None:
                title = option.group if isinstance(option, _Option) else "Options"
                groups.setdefault(title, []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)


def option_group(title: str) -> Callable[..., Callable[[_F], _F]]:
    """A `click.option` for the options of one group."""

    def option(*names: str, **attributes: Any) -> Callable[[_F], _F]:
        return click.option(*names, cls=_Option, group=title, **attributes)

    return option
