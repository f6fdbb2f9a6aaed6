"""Every key that a file of somebody's may have stands on the page about such files, in an example or in a table."""

import re
from pathlib import Path

import pytest

from wiretape.config import load_config
from wiretape.toml import Table
from wiretape_replay.faults.kinds import KINDS as FAULTS
from wiretape_replay.faults.reading import read_script
from wiretape_replay.service.assumptions import load_setup
from wiretape_replay.service.scenario.kinds import KINDS as STEPS
from wiretape_replay.service.scenario.reading import read_scenario

DOCS = Path(__file__).parents[2] / "docs"
FILES = {
    "wiretape.toml": (load_config, ["report.md"], ()),
    "a fault script": (read_script, ["faults.md"], FAULTS),
    "a scenario": (read_scenario, ["scenarios.md"], STEPS),
    "a service": (load_setup, ["service.md", "assumptions.md"], ()),
}


@pytest.fixture
def known(monkeypatch):
    """The keys that the code would have taken, at every table that it read."""
    names: set[str] = set()
    only = Table.only

    def noting(table, known, *kind):
        names.update(known := list(known))
        only(table, known, *kind)

    monkeypatch.setattr(Table, "only", noting)
    return names


@pytest.mark.parametrize("kind", FILES)
def test_every_key_stands_on_its_page(kind, known, tmp_path):
    """The examples of the page are read, so those are keys that there are, too."""
    read, pages, words = FILES[kind]
    text = "\n".join((DOCS / page).read_text("utf-8") for page in pages)
    examples = re.findall(r"^```toml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    for number, example in enumerate(examples):
        path = tmp_path / f"{number}.toml"
        path.write_text(example, "utf-8")
        read(path)
    assert examples
    assert known
    wanted = known | {str(word) for word in words}
    missing = [key for key in sorted(wanted) if not re.search(rf"`{key}`|`\[+{key}|\b{key}( =|\.\w+\]|\])", text)]
    assert missing == [], f"keys of {kind} that {' and '.join(pages)} have to say"
