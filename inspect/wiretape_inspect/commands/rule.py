"""`wiretape rule`: what a rule requires, why, and traffic that breaks it and that satisfies it."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import click

from wiretape.checker import CATALOGUE, EVERY, UnknownCodeError, codes_of
from wiretape.config import find_config
from wiretape.contract import CodeUse, load_contract
from wiretape.contract.contract_files import BUNDLED
from wiretape.errors import InputError
from wiretape.files import PATH, write_error
from wiretape.installed_parts import CONTRACTS, part_names
from wiretape.json_codec import dump_json
from wiretape.rules import Rule, RuleSet
from wiretape.safe_text import closest_match, printable
from wiretape_inspect import rule_output
from wiretape_inspect.contract_options import allow_code_option, load_contracts, run_examples
from wiretape_inspect.terminal_output import Line, write_lines


def _complete_code(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [code for code in CATALOGUE if code.startswith(incomplete.upper())]


@click.command()
@click.argument("code", required=False, shell_complete=_complete_code)
@click.option("--all", "all_", is_flag=True, help="Explain every rule; with CODE, show every example of that rule.")
@click.option(
    "-f",
    "--format",
    "format_",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="text: for people. json: for programs. markdown: as in docs/rules.",
)
@click.option(
    "-o",
    "--output",
    "folder",
    type=PATH,
    metavar="FOLDER",
    help="With --all --format markdown: write one page per rule to this folder.",
)
@click.option(
    "--contract",
    metavar="NAME_OR_FILE",
    help="Explain the rules of this contract.  [default for a CODE that is not built in: that of the configuration]",
)
@allow_code_option
def rule(
    code: str | None, *, all_: bool, format_: str, folder: Path | None, contract: str | None, allow_code: bool
) -> None:
    """Explain the rule CODE (a code or a name): its clause, why it matters, and traffic that breaks or satisfies it.

    Without CODE, all rules are listed in a table. CODE can also be a family, such as SEQ.

    \b
    Examples:
        wiretape rule
        wiretape rule SEQ001
        wiretape rule RES
        wiretape rule --all --format json
        wiretape rule STR001 --contract sse
    """
    if folder is not None:
        if not all_ or format_ != "markdown" or code or contract:
            needs = "--output needs --all and --format markdown, and no CODE and no --contract"
            raise click.UsageError(f"{needs}: `wiretape contract docs` writes the pages of a contract.")
        write_pages(folder, rule_output.pages())
        return
    if contract is None and code is not None and not _has_rule(code, CATALOGUE):
        contract = _find_contract(code)
    rules = None if contract is None else load_contracts([contract], allow_code=allow_code)[0]
    found = _find_rules(code, CATALOGUE if rules is None else rules.catalogue)
    lines = run_examples(contract, lambda: list(_lines(found, format_, rules, all_=all_)))
    write_lines(lines, page=format_ == "text")


def _lines(rules: list[Rule], format_: str, contract: RuleSet | None, *, all_: bool) -> Iterator[Line | str]:
    if format_ == "json":
        documents = [rule_output.explanation_document(each, contract) for each in rules]
        yield dump_json(documents[0] if len(rules) == 1 else documents, indent=True)
        return
    if len(rules) > 1 and not all_:
        yield from rule_output.table_lines(rules) if format_ == "text" else rule_output.index_lines(rules)
        return
    for number, each in enumerate(rules):
        yield from [""] if number else []
        if format_ == "text":
            yield from rule_output.text_lines(each, all_examples=all_, contract=contract)
        else:
            yield from map(printable, rule_output.markdown_lines(each, contract))  # strangers write contracts


def _find_contract(code: str) -> str | None:
    """Return the contract with a rule: one of the configuration, or an installed one.  Raises InputError."""
    configured = find_config(Path.cwd()).contracts
    known = dict(CATALOGUE)
    for name in configured:
        known |= (catalogue := load_contract(name, code=CodeUse.SKIP).catalogue)
        if _has_rule(code, catalogue):
            return name
    for name in (*BUNDLED, *part_names(CONTRACTS)):
        with suppress(InputError):  # a broken package
            if _has_rule(code, load_contract(name).catalogue):
                return name
    try:
        _find_rules(code, known)
    except InputError as error:
        if str(error).endswith("?"):
            raise
        raise InputError(f"{str(error).removesuffix('.')}; for a rule of a contract file, use --contract.") from None
    return None


def _has_rule(code: str, catalogue: Mapping[str, Rule]) -> bool:
    with suppress(InputError):
        return bool(_find_rules(code, catalogue))
    return False


def _find_rules(code: str | None, catalogue: Mapping[str, Rule]) -> list[Rule]:
    """Return the rules with a code, a code prefix or a name.  Raises InputError."""
    wanted = code if code is not None else EVERY
    if named := [each for each in catalogue.values() if each.name == wanted.lower()]:
        return named
    try:
        codes = codes_of(wanted, catalogue)
    except UnknownCodeError as error:
        name = closest_match(wanted.lower(), [each.name for each in catalogue.values()]) if "-" in wanted else None
        raise InputError(f"There is no rule {wanted!r}; did you mean {name}?" if name else str(error)) from None
    return [each for each in catalogue.values() if each.code in codes]


def write_pages(folder: Path, pages: Mapping[str, str]) -> None:
    """Write pages by their file names.  Raises InputError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in pages.items():
            (folder / name).write_text(text, "utf-8")
    except OSError as error:
        raise InputError(write_error(folder, error)) from None
    click.echo(f"Wrote {len(pages)} pages to {printable(str(folder))}.", err=True)
