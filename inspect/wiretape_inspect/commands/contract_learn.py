"""`wiretape contract learn`: a draft contract from recordings."""

from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import click

from wiretape.contract import CodeUse
from wiretape.files import PATH, check_free, check_writable
from wiretape.labels import count_of
from wiretape.recording import Recording
from wiretape.recording.rotated_parts import open_wholes
from wiretape.safe_text import printable
from wiretape.toml_files import read_toml_text
from wiretape_inspect.atomic_output import write_text
from wiretape_inspect.contract_options import allow_code_option, load_contracts
from wiretape_inspect.report.remote_files import expand_name, is_url, shown_name
from wiretape_inspect.terminal_output import write_lines

if TYPE_CHECKING:
    from wiretape_inspect.learning.contract_update import ContractUpdate


@click.command()
@click.argument("names", type=click.Path(readable=False), nargs=-1, required=True, metavar="RECORDING...")
@click.option("-o", "--output", type=PATH, metavar="FILE", help="Write to this file instead of standard output.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option(
    "--update",
    type=PATH,
    metavar="FILE",
    help="Report what the recordings contradict in the contract in this file, and add to it; --output writes it with "
    "the additions.",
)
@click.option(
    "--least",
    type=click.IntRange(min=1),
    default=3,
    show_default=True,
    metavar="N",
    help="Observations that a rule needs; rules with fewer are comments.",
)
@allow_code_option
@click.pass_context
def learn(
    ctx: click.Context,
    /,
    *,
    names: tuple[str, ...],
    output: Path | None,
    force: bool,
    update: Path | None,
    least: int,
    allow_code: bool,
) -> None:
    """Write a draft contract from recordings of an API.

    It has the operations, the types with their schemas, and the rules that the recordings show, with examples. Read
    each rule: a recording shows what happened, not what has to happen.

    Exit status: 1 if recordings contradict the contract of --update, otherwise 0.

    \b
    Examples:
        wiretape contract learn run.db -o my.toml
        wiretape contract learn --update my.toml new.db
        wiretape contract learn --update my.toml new.db -o my.toml --force
    """
    # Other commands about contracts need none of these.
    from wiretape_inspect.learning.contract_update import ContractUpdater  # noqa: PLC0415
    from wiretape_inspect.learning.learner import Learner  # noqa: PLC0415
    from wiretape_inspect.learning.path_templates import slug  # noqa: PLC0415

    if output is not None:
        check_free(output, [Path(name) for name in names if not is_url(name)], force=force)
        check_writable(output)
    text = None if update is None else read_toml_text(update)
    with ExitStack() as opened:
        learner = Learner(_open(names, opened), least)
        if update is None or text is None:
            write_text(learner.new_contract(slug((output or Path("learned")).stem)), output, force=force)
            return
        (contract,) = load_contracts([str(update)], allow_code=allow_code)
        code = CodeUse.RUN if allow_code else CodeUse.REFUSE
        found = ContractUpdater(update, text, contract, learner, least).compare(code)
    write_lines(_lines(found))
    if output is not None:
        write_text(found.text, output, force=force)
    ctx.exit(1 if found.contradictions else 0)


def _open(names: tuple[str, ...], opened: ExitStack) -> list[Recording]:
    """Open recordings in any format until `opened` is closed.  Raises InputError."""
    from wiretape_inspect.report.file_reports import open_file, print_note  # noqa: PLC0415 - it takes long to import

    wholes = open_wholes(
        list(chain.from_iterable(map(expand_name, names))),
        lambda name: opened.enter_context(open_file(name)),
        opened,
        note=print_note,
        shown_name=shown_name,
    )
    return [recording for _, recording in wholes]


def _lines(found: "ContractUpdate") -> Iterator[str]:
    for code, each in found.contradictions.items():
        first = each.first
        where = f"{each.file}, exchange {first.exchange}"
        where += "" if first.event is None else f", event {first.event}"
        yield printable(f"contradicted  {code}  {count_of(each.findings, 'finding')}, the first in {where}")
        yield printable(f"              {first.message}")
    yield from (printable(f"new           {addition}") for addition in found.additions)
    yield from (printable(f"not added     {rule}") for rule in found.refuted)
    rules, additions = count_of(len(found.contradictions), "rule"), count_of(len(found.additions), "addition")
    yield f"{rules} contradicted, {additions}."
