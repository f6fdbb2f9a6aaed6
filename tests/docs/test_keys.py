"""Every key of a user's file is documented on the page about that file, in an example or in a table."""

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from wiretape.config import ConfigTable, load_config
from wiretape_inspect.probe.probe_file import ProbeFile, read_probe_file
from wiretape_replay.access.access_settings import AccessFile
from wiretape_replay.faults.fault_script import FaultScript
from wiretape_replay.server_options import ServeOptions, fault_script
from wiretape_replay.service.assumptions import Assumptions
from wiretape_replay.service.scenario_file import read_scenario
from wiretape_replay.service.scenario_steps import Scenario

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
    "wiretape.toml": (load_config, ["report.md"], tuple(keys_of(ConfigTable))),
    "a fault script": (fault_script, ["faults.md"], tuple(keys_of(FaultScript))),
    "a scenario": (read_scenario, ["scenarios.md"], tuple(keys_of(Scenario))),
    "a probe file": (read_probe_file, ["probe.md"], tuple(keys_of(ProbeFile))),
    "a service": (
        lambda path: ServeOptions(service=path),
        ["service.md", "assumptions.md"],
        (*keys_of(AccessFile), *keys_of(Assumptions)),
    ),
}


@pytest.mark.parametrize("kind", FILES)
def test_every_key_is_documented_on_its_page(kind, tmp_path):
    """The examples on the page are loaded as well, so they hold valid keys only."""
    read, pages, words = FILES[kind]
    text = "\n".join((DOCS / page).read_text("utf-8") for page in pages)
    examples = re.findall(r"^```toml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    for number, example in enumerate(examples):
        path = tmp_path / f"{number}.toml"
        path.write_text(example, "utf-8")
        read(path)
    assert examples
    wanted = set(words)
    assert wanted
    missing = [key for key in sorted(wanted) if not re.search(rf"`{key}`|`\[+{key}|\b{key}( =|\.\w+\]|\])", text)]
    assert missing == [], f"keys of {kind} that {' and '.join(pages)} must document"
