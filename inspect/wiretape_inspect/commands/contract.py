"""`wiretape contract`: list, show, test, begin and learn contracts of APIs."""

from collections.abc import Iterator
from pathlib import Path

import click

from wiretape.checker.contract_examples import check_examples, find_unused_types
from wiretape.contract import CodeUse, load_contract
from wiretape.contract.contract_files import BUNDLED, new_contract_text
from wiretape.contract.contract_model import Contract
from wiretape.contract.service_terms import ServiceTerms
from wiretape.errors import InputError
from wiretape.event_format import EventFormat
from wiretape.files import PATH
from wiretape.installed_parts import CONTRACTS, part_names
from wiretape.labels import count_of
from wiretape.safe_text import printable
from wiretape_inspect import rule_output
from wiretape_inspect.atomic_output import write_text
from wiretape_inspect.commands.contract_learn import learn
from wiretape_inspect.commands.rule import write_pages
from wiretape_inspect.contract_options import allow_code_option, load_contracts, run_examples
from wiretape_inspect.terminal_output import BLANK, Line, labelled, wrapped, write_lines


@click.group(epilog="\b\nExample:\n    wiretape contract new -o tickets.toml")
def contract() -> None:
    """List, show, test, begin and learn contracts, the rules for the event streams of an API.

    `wiretape report --contract` checks recordings with one.
    """


contract.add_command(learn)


@contract.command("list")
@click.pass_context
def list_(ctx: click.Context, /) -> None:
    """List the contracts that come with wiretape, and those of installed packages."""
    rows, has_failed = [], False
    for name in sorted({*BUNDLED, *part_names(CONTRACTS)}):
        try:
            rows.append(_row(name, load_contract(name)))
        except InputError as error:
            click.echo(f"Error: {error}", err=True)
            has_failed = True
    write_lines(rows)
    ctx.exit(2 if has_failed else 0)


@contract.command()
@click.argument("name", metavar="NAME_OR_FILE")
def show(name: str) -> None:
    """Show what a contract has: operations, facts, types, entities, errors, limits, scopes and rules.

    None of its code runs.
    """
    write_lines(_lines(load_contract(name, code=CodeUse.SKIP)))


@contract.command()
@click.argument("name", metavar="NAME_OR_FILE")
@allow_code_option
@click.pass_context
def test(ctx: click.Context, /, *, name: str, allow_code: bool) -> None:
    """Run every example of a contract; those of a contract that it extends are tested with that one.

    Exit status: 0 if each breaks or keeps its rule and no other, 1 if one does not, 2 if the contract is invalid.
    """
    (tested,) = load_contracts([name], allow_code=allow_code)
    results, unused = run_examples(name, lambda: (list(check_examples(tested)), find_unused_types(tested)))
    failed = [result for result in results if result.problem]
    write_lines(
        f"{each.example.code} {each.example.name}: {printable(each.problem)}".removesuffix(".") + "." for each in failed
    )
    kept = {example.code for example in tested.examples if not example.breaks}
    codes = list(dict.fromkeys(example.code for example in tested.examples))
    if lacking := [code for code in codes if code not in kept]:
        click.echo(f"Without an example that keeps the rule: {', '.join(lacking)}.")
    if unused:
        shown = ", ".join(f"{types} ({key})" for types, key in unused.items())
        click.echo(printable(f"No example has an event of these types, which may be misspelt: {shown}."))
    does = "does what it is for" if len(results) == 1 else "do what they are for"
    done = f"{len(results) - len(failed)} of {count_of(len(results), 'example')} {does}."
    click.echo(f"{count_of(len(codes), 'rule')}, {done}")
    ctx.exit(1 if failed else 0)


@contract.command()
@click.argument("name", metavar="NAME_OR_FILE")
@click.option("-o", "--output", "folder", type=PATH, required=True, metavar="FOLDER", help="Folder for the pages.")
@allow_code_option
def docs(name: str, *, folder: Path, allow_code: bool) -> None:
    """Write a page for each rule that a contract declares itself, with its examples, and one that lists them."""
    (documented,) = load_contracts([name], allow_code=allow_code)
    write_pages(folder, run_examples(name, lambda: rule_output.pages(documented)))


@contract.command()
@click.option("-o", "--output", type=PATH, metavar="FILE", help="Write to this file instead of standard output.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
def new(*, output: Path | None, force: bool) -> None:
    """Print a commented contract to begin with."""
    write_text(new_contract_text(), output, force=force, mode=0o666)


def _text_places(facts: EventFormat) -> Iterator[str]:
    """Yield where deltas have their text."""
    for types, pointer in facts.texts:
        yield str(pointer) if types.patterns == ("*",) else f"{pointer} of {types}"


def _row(name: str, each: Contract) -> str:
    return printable(f"{name:<15} {each.title}  ({count_of(len(each.rules), 'rule')})")


def _lines(shown: Contract) -> Iterator[Line]:
    yield labelled((f"{shown.name}  ", "head"), shown.title)
    if shown.source:
        yield labelled(("source: ", "dim"), shown.source)
    yield from _title("operations")
    for operation in shown.operations:
        cursor = operation.cursor
        where = f", cursor in the {cursor.place} {cursor.name}" if cursor else ""
        where += f", channel {{{operation.channel}}}" if operation.channel else ""
        where += f", deltas with {operation.deltas}" if operation.deltas else ""
        where += ", open ended" if operation.is_open_ended else ""
        begins = "the start" if operation.begins_at_start else "the next event"
        where += f", begins with {begins}" if operation.is_stream else ", no stream"
        yield labelled(f"  {operation.name}: ", f"{operation.pattern.text}{where}")
    facts = shown.format
    names_channel = any(operation.channel for operation in shown.operations)
    url = None if names_channel else "url"
    lines = {"type": "event", "sequence": None, "cursor": "id", "channel": url, "durable": "id"}
    found = {name: getattr(facts, name) or line for name, line in lines.items()}
    found |= {"delta": facts.deltas if facts.deltas.patterns else None, "text": ", ".join(_text_places(facts)) or None}
    yield from _title("facts")
    yield from (labelled(f"  {name}: ", f"{value}") for name, value in found.items() if value is not None)
    if shown.types:
        yield from _title("types")
    for name, type_ in shown.types.items():
        about = {None: [], True: ["durable"], False: ["not durable"]}[type_.durable]
        about += [] if type_.schema is None else ["with a schema"]
        about += ["failure"] if type_.failure else []
        yield labelled((f"  {name}: ", "bad" if type_.failure else ""), ", ".join(about) or "named only")
    if shown.entities:
        yield from _title("entities")
    for entity in shown.entities.values():
        key = " and ".join(f"`{pointer}`" for pointer in entity.key) or "one at a time"
        inside = (", one at a time" if entity.single else "") + (f", inside {entity.within}" if entity.within else "")
        continues = f" over {entity.continues}" if entity.continues.patterns not in {(), ("*",)} else ""
        yield labelled(f"  {entity.name}: ", f"{key}, from {entity.opens}{continues} to {entity.closes}{inside}")
    yield from _service_lines(shown.service)
    yield from _title("rules")
    yield from rule_output.table_lines(shown.rules, indent="  ")
    common = sum(rule.everywhere for rule in shown.rules)
    yield BLANK
    yield wrapped(f"{common} of these apply to every event stream and are part of every contract.")


def _title(title: str) -> list[Line]:
    return [BLANK, Line([(title, "head")])]


def _service_lines(terms: ServiceTerms) -> Iterator[Line]:
    """Yield what a contract says about its service apart from streams."""
    codes = {} if terms.errors is None else terms.errors.codes
    if codes:
        yield from _title("errors")
    for code, each in codes.items():
        yield labelled(f"  {code}: ", f"{each.status}{f', when {each.when}' if each.when else ''}")
    if terms.limits:
        yield from _title("limits")
    for name, limit in terms.limits.items():
        counted = " and ".join(request for request, counts in terms.counts.items() if counts == name)
        requests = count_of(limit.requests, "request")
        window = f"{requests} in {count_of(limit.window_seconds, 'second')}"
        yield labelled(f"  {name}: ", f"{window}{f', counts {counted}' if counted else ''}")
    if terms.scopes:
        yield from _title("scopes")
    for name in dict.fromkeys(terms.scopes.values()):
        yield labelled(f"  {name}: ", f"{' and '.join(each for each, scope in terms.scopes.items() if scope == name)}")
