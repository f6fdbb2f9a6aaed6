"""Every key of a user's file is documented on the page about that file, in an example or in a table."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
from for_each import for_each

from wiretape.config import ConfigTable
from wiretape.contract.contract_tables import ContractTable
from wiretape_contracts.agent_sessions.probe.probe_file import ProbeFile
from wiretape_contracts.agent_sessions.stand_in.assumptions import Assumptions
from wiretape_contracts.agent_sessions.stand_in.scenario_steps import Scenario
from wiretape_replay.access.access_settings import AccessFile
from wiretape_replay.faults.fault_script import FaultScript

DOCS = Path(__file__).parents[2] / "docs"


def keys_of(type_: type[msgspec.Struct]) -> Iterator[str]:
    """Yield every key of a struct and of the structs inside it."""

    seen = set()

    def walk(node: object) -> Iterator[str]:
        if isinstance(node, msgspec.inspect.StructType) and node.cls not in seen:
            seen.add(node.cls)
            for field in node.fields:
                yield field.encode_name
                yield from walk(field.type)
        for name in ("item_type", "value_type", "types", "item_types"):
            inner = getattr(node, name, ())
            for each in inner if isinstance(inner, tuple) else (inner,):
                yield from walk(each)

    yield from dict.fromkeys(walk(msgspec.inspect.type_info(type_)))


FILES = {
    "report.md": [ConfigTable],
    "faults.md": [FaultScript],
    "scenarios.md": [Scenario],
    "contracts.md": [ContractTable],
    "probe.md": [ProbeFile],
    "service.md": [AccessFile, Assumptions],
}
"""Pages, and the files that they describe; test_snippets reads their examples."""


@for_each("pages", FILES)
def test_every_key_is_documented_on_its_page(pages):
    text = "\n".join((DOCS / page).read_text("utf-8") for page in pages.split())
    wanted = {key for type_ in FILES[pages] for key in keys_of(type_)}
    assert len(wanted) > 3
    missing = [key for key in sorted(wanted) if not re.search(rf"`{key}`|`\[+{key}|\b{key}( =|\.\w+\]|\])", text)]
    assert missing == [], f"keys that {pages} must document"
