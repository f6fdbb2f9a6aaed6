"""Options that come in pairs: each `--output` belongs to the `--format` before it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from wiretape.safe_text import printable

_ORDER = "wiretape.order"


@dataclass(frozen=True, slots=True)
class Pair:
    """A form, and where it goes; None is standard output."""

    form: str
    to: Path | None


class PairingCommand(click.Command):
    """A command that remembers in which order its options were given, which click's own parameters do not tell."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse twice: once for the order alone."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        ctx.meta[_ORDER] = [parameter.name for parameter in order]
        return super().parse_args(ctx, args)


def pairs(ctx: click.Context, forms: Sequence[str], outputs: Sequence[Path], default: str) -> list[Pair]:
    """Put the values of `--format` and `--output` together again.  Raises click.UsageError."""
    if len(forms) <= 1 and len(outputs) <= 1:
        # With one of each there is no doubt, whichever comes first.
        return [Pair(forms[0] if forms else default, _file(outputs[0]) if outputs else None)]
    made: list[Pair] = []
    given: list[bool] = []
    form, output = iter(forms), iter(outputs)
    for name in ctx.meta[_ORDER]:
        if name == "forms":
            made.append(Pair(next(form), None))
            given.append(False)
        elif name == "outputs":
            to = next(output)
            if not made:
                raise click.UsageError(f"--output {printable(str(to))} has no --format before it to belong to.")
            if given[-1]:
                raise click.UsageError(
                    f"--format {made[-1].form} has two outputs; each --output belongs to the --format before it."
                )
            made[-1], given[-1] = Pair(made[-1].form, _file(to)), True
    _check(made)
    return made


def _file(path: Path) -> Path | None:
    return None if path == Path("-") else path


def _check(made: Sequence[Pair]) -> None:
    printed = [pair.form for pair in made if pair.to is None]
    if len(printed) > 1:
        raise click.UsageError(
            f"{' and '.join(printed)} would both go to standard output: give each --format but one its --output."
        )
    files = [pair.to.resolve() for pair in made if pair.to is not None]
    for path in files:
        if files.count(path) > 1:
            raise click.UsageError(f"Two formats would be written to {printable(path.name)}.")
