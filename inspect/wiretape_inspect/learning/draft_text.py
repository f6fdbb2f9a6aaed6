"""The text of a drafted contract: TOML, with weak rules as comments."""

from collections.abc import Iterable, Iterator
from typing import Any

import tomlkit
from tomlkit.items import Item, String, StringType, Trivia

from wiretape_inspect.learning.rule_drafts import ContractDraft, RuleDraft

_WIDTH = 120
_EXAMPLES = ("breaks", "keeps")
_PLACEHOLDER = "data: {}\n\n"


def contract_text(draft: ContractDraft, about: dict[str, Any], *, header: str = "", all_rules: bool = False) -> str:
    """Return the text of a contract; `about` has its name and title.  With `all_rules`, no rule is a comment."""
    parts = [_dump(about)]
    parts += _tables("operations", draft.operations)
    parts.append(_dump({"event": _inline_values(draft.event)}))
    parts += _tables("entity", draft.entities)
    parts += type_tables(draft.types)
    parts += rule_tables(draft.rules, all_rules=all_rules)
    return f"{header}{chr(10).join(parts)}"


def type_tables(types: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the tables of types, each with its properties on lines of their own."""
    for name, table in types.items():
        yield _dump({"types": {name: {key: _table(value, 1) for key, value in table.items()}}})


def operation_tables(operations: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the tables of operations."""
    yield from _tables("operations", operations)


def rule_tables(rules: Iterable[RuleDraft], *, all_rules: bool = False) -> Iterator[str]:
    """Yield the tables of rules; without `all_rules`, weak ones and those without an example as comments."""
    for rule in rules:
        if rule.breaks is None and not all_rules:
            yield f"# No example was found for the rule {rule.name}.  {rule.observed}\n"
            continue
        table = tomlkit.table()
        # Lists of exchanges are tables of their own, which end the keys of the rule.
        for key, value in sorted(rule.document().items(), key=lambda item: _is_exchanges(*item)):
            table.add(key, _example(value) if key in _EXAMPLES else inline(value))
        rules = tomlkit.aot()
        rules.append(table)
        text = tomlkit.document().add("rule", rules).as_string()
        yield _commented(text) if rule.is_weak and not all_rules else text


def _is_exchanges(key: str, value: Any) -> bool:
    return key in _EXAMPLES and isinstance(value, list)


def _commented(text: str) -> str:
    # Only a line feed ends a line of TOML.
    return "".join(f"# {line}\n" if line else "#\n" for line in text.removesuffix("\n").split("\n"))


def _tables(name: str, tables: dict[str, dict[str, Any]]) -> Iterator[str]:
    yield from (_dump({name: {key: _inline_values(table)}}) for key, table in tables.items())


def _inline_values(table: dict[str, Any]) -> dict[str, Any]:
    return {key: inline(value) for key, value in table.items()}


def _table(value: Any, levels: int) -> Any:
    """Return a value whose outer objects are tables, and whose inner ones are on one line."""
    if not isinstance(value, dict):
        return inline(value)
    if levels == 0:
        return _inline_values(value)
    return {key: _table(inner, levels - 1) if key == "properties" else inline(inner) for key, inner in value.items()}


def inline(value: Any) -> Item:
    """Return a value that is written on one line."""
    if isinstance(value, dict):
        table = tomlkit.inline_table()
        table.update({key: inline(inner) for key, inner in value.items()})
        return table
    if isinstance(value, list | tuple):
        array = tomlkit.array()
        array.extend(inline(inner) for inner in value)
        return array.multiline(multiline=len(array.as_string()) > _WIDTH)
    item: Item = tomlkit.item(value)
    return item


def _example(example: Any) -> Any:
    if example is None:
        return _PLACEHOLDER
    if isinstance(example, str):
        return _body(example)
    return [{key: _body(value) if key == "body" else inline(value) for key, value in each.items()} for each in example]


def _body(text: str) -> Item:
    """Return a text on lines of its own, if it can be."""
    if "\r" in text:
        return tomlkit.item(text)
    raw = tomlkit.string(text, multiline=True).as_string()[3:-3]
    # A line feed right after the quotes is not part of the text.
    return String(StringType.MLB, text, raw if text.startswith("\n") else f"\n{raw}", Trivia())


def _dump(document: dict[str, Any]) -> str:
    return tomlkit.dumps(document)
