"""Options that come in pairs: each `--output` applies to the `--format` before it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from wiretape.safe_text import printable

_ORDER = "wiretape.order"


@dataclass(frozen=True, slots=True)
class Output:
    """A format, and the file it is written to; None is standard output."""

    format: str
    path: Path | None


class OrderedCommand(click.Command):
    """A command that remembers the order of its options, which click does not."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse twice: once for the order alone."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[_ORDER] = [parameter.name for parameter in order]
        return super().parse_args(ctx, args)


def pair_outputs(ctx: click.Context, formats: Sequence[str], paths: Sequence[Path], default: str) -> list[Output]:
    """Pair the values of `--format` and `--output`.  Raises click.UsageError."""
    if len(formats) <= 1 and len(paths) <= 1:
        # With one of each the order does not matter.
        return [Output(formats[0] if formats else default, _path(paths[0]) if paths else None)]
    outputs: list[Output] = []
    has_path: list[bool] = []
    left_formats, left_paths = iter(formats), iter(paths)
    for name in ctx.meta[_ORDER]:
        if name == "formats":
            outputs.append(Output(next(left_formats), None))
            has_path.append(False)
        elif name == "outputs":
            path = next(left_paths)
            if not outputs:
                raise click.UsageError(f"--output {printable(str(path))} has no --format before it.")
            if has_path[-1]:
                raise click.UsageError(
                    f"--format {outputs[-1].format} has two outputs: put each --output after its --format."
                )
            outputs[-1], has_path[-1] = Output(outputs[-1].format, _path(path)), True
    _check(outputs)
    return outputs


def _path(path: Path) -> Path | None:
    return None if path == Path("-") else path


def _check(outputs: Sequence[Output]) -> None:
    printed = [output.format for output in outputs if output.path is None]
    if len(printed) > 1:
        raise click.UsageError(
            f"{' and '.join(printed)} would both go to standard output: give all but one an --output."
        )
    paths = [output.path.resolve() for output in outputs if output.path is not None]
    for path in paths:
        if paths.count(path) > 1:
            raise click.UsageError(f"Two formats would be written to {printable(path.name)}.")
