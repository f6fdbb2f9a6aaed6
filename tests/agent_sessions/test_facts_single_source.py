"""Facts of the specification are defined in `wiretape_contracts.agent_sessions` and nowhere else."""

import ast
import re
from pathlib import Path

from for_each import for_each

from wiretape_contracts.agent_sessions import ERROR_CODES, EVENT_DELTAS, EVENT_TYPES, OPERATIONS
from wiretape_contracts.agent_sessions.schemas import SCHEMAS

ROOT = Path(__file__).parents[2]
CONTRACT = ROOT / "contracts" / "wiretape_contracts" / "agent_sessions"
EXEMPT = [CONTRACT / f"{name}.py" for name in ("__init__", "contract_document", "operations")]
SOURCES = [
    path
    for folder in ("core", "contracts", "proxy", "replay", "inspect")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if path not in EXEMPT
]
FACTS = {*EVENT_TYPES, *ERROR_CODES, *(operation.route for operation in OPERATIONS.values()), EVENT_DELTAS}


@for_each("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_other_module_repeats_a_fact_of_the_specification(path):
    constants = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Constant)]
    assert [(node.lineno, node.value) for node in constants if node.value in FACTS] == []


def test_the_search_covers_all_sources_and_facts():
    assert len(SOURCES) > 50
    assert len(FACTS) == 18 + 16 + 3 + 1
    assert len(SCHEMAS) == 9


WORDS = re.compile(
    r"agent.sessions?\b|session_(?!token)|run_id|tool_call|invalid_cursor|event_deltas|resync", re.IGNORECASE
)
GENERIC = ["core", "proxy", "replay", "inspect"]
"""Packages that work for every contract."""
KINDS = {".py", ".js", ".css", ".html", ".sql", ".toml"}


def _is_generic(path: Path) -> bool:
    # Vectors contain traffic.
    return path.suffix in KINDS and path.parent != ROOT / "core" / "wiretape" / "rules" / "vectors"


MODULES = [path for folder in GENERIC for path in sorted((ROOT / folder).rglob("*")) if _is_generic(path)]


@for_each("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_generic_packages_do_not_know_the_specification(path):
    assert [line for line in path.read_text("utf-8").splitlines() if WORDS.search(line)] == []
