"""`wiretape rule`: what a rule says, why, and traffic that breaks and keeps it."""

import re
from collections.abc import Iterator
from pathlib import Path

import click

from wiretape.errors import InputError
from wiretape.files import PATH, write_error
from wiretape.json_output import dump_json
from wiretape.rules import CATALOGUE, EVERY, Rule, UnknownCodeError, codes_of
from wiretape.safe_text import closest_match, printable
from wiretape_inspect import rule_explanation, terminal_output

_PAGE = re.compile(r"[A-Z]+\d{3}\.md")
"""What a page of a rule is called; nothing else is removed."""


@click.command()
@click.argument("code", required=False)
@click.option("--all", "everything", is_flag=True, help="Explain every rule, or of one rule show every example.")
@click.option(
    "--format",
    "form",
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
    help="With --all --format markdown: write a page for each rule into this folder, and remove pages of no rule.",
)
def rule(code: str | None, *, everything: bool, form: str, folder: Path | None) -> None:
    """Explain the rule CODE (or its name): its clause, why it matters, traffic that breaks it and that keeps it.

    Without CODE: a table of all rules. CODE can also be a family, like SEQ.

    \b
    Examples:
        wiretape rule
        wiretape rule SEQ001
        wiretape rule RES
        wiretape rule --all --format json
    """
    if folder is not None:
        if not everything or form != "markdown" or code:
            raise click.UsageError("--output goes with --all --format markdown.")
        _write_pages(folder)
        return
    rules = _named(code)
    terminal_output.write_lines(_lines(rules, form, one=len(rules) == 1, everything=everything), page=form == "text")


def _lines(rules: list[Rule], form: str, *, one: bool, everything: bool) -> Iterator[str]:
    if form == "json":
        explained = [rule_explanation.as_json(rule_explanation.Explanation.of(each)) for each in rules]
        yield dump_json(explained[0] if one else explained, indent=True)
        return
    if not (one or everything):
        yield from rule_explanation.table_lines(rules) if form == "text" else rule_explanation.index_lines(rules)
        return
    for number, each in enumerate(rules):
        explanation = rule_explanation.Explanation.of(each)
        yield from [""] if number else []
        if form == "text":
            width = min(terminal_output.paper().width or rule_explanation.WIDTH, rule_explanation.WIDTH)
            yield from rule_explanation.text_lines(explanation, everything=everything, width=width)
        else:
            yield from rule_explanation.markdown_lines(explanation)


def _named(code: str | None) -> list[Rule]:
    """The rules that a code, the beginning of codes, or a name means.  Raises InputError."""
    wanted = code if code is not None else EVERY
    by_name = {each.name: each for each in CATALOGUE.values()}
    if wanted.lower() in by_name:
        return [by_name[wanted.lower()]]
    try:
        codes = codes_of(wanted)
    except UnknownCodeError as error:
        name = closest_match(wanted.lower(), by_name) if "-" in wanted else None
        said = f"There is no rule {wanted!r}; did you mean {name}?" if name else str(error)
        raise InputError(printable(said)) from None
    return [each for each in CATALOGUE.values() if each.code in codes]


def _write_pages(folder: Path) -> None:
    pages = rule_explanation.pages()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob("*.md"):
            if path.name not in pages and _PAGE.fullmatch(path.name):
                path.unlink()
        for name, text in pages.items():
            (folder / name).write_text(text, "utf-8")
    except OSError as error:
        raise InputError(write_error(folder, error)) from None
    click.echo(f"{len(pages)} pages in {printable(str(folder))}", err=True)
