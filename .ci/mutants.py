"""Change the code in small ways, and report the changes that no test notices.

python .ci/mutants.py PYTHON_WITH_TESTS [GROUP...] [--sample N] [--seed N]

Runs in an environment with cosmic-ray; the tests run in a copy of the tree with the other Python.
"""

import argparse
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import TestOutcome, WorkerOutcome, WorkResult

ROOT = Path(__file__).parents[1]
SOURCES = ("core", "contracts", "proxy", "replay", "inspect")
SERVICE = "contracts/wiretape_contracts/agent_sessions"
GROUPS = {
    "sse": (["core/wiretape/sse.py"], ["tests/sse", "tests/core/test_frame_reader.py"]),
    "rules": (
        ["core/wiretape/checker", "core/wiretape/rules"],
        ["tests/rules/test_vectors.py", "tests/rules", "tests/contract", "tests/report", "-m", "'not hypothesis'"],
    ),
    "service": (
        [f"{SERVICE}/{name}" for name in ("rules", "state", "session_event.py", "session_traffic.py")],
        ["tests/rules/test_vectors.py", "tests/rules", "tests/agent_sessions", "-m", "'not hypothesis'"],
    ),
    "redaction": (
        [f"core/wiretape/recording/{name}.py" for name in ("redactor", "body_redaction", "secret_finder")]
        + ["core/wiretape/credential_names.py"],
        [f"tests/recording/test_{name}.py" for name in ("secret_finder", "redact", "json_redaction", "redaction_page")],
    ),
    "verbatim": (
        ["replay/wiretape_replay/verbatim"],
        [f"tests/replay/test_{name}.py" for name in ("request_matching", "verbatim_time", "verify", "verbatim_wire")],
    ),
    "faults": (
        ["replay/wiretape_replay/faults"],
        [f"tests/replay/test_fault_{name}.py" for name in ("script", "injection", "page", "wire")],
    ),
    "http": (
        ["replay/wiretape_replay/http_server"],
        [f"tests/replay/test_{name}.py" for name in ("http_server", "socket_shutdown", "verbatim_wire", "fault_wire")],
    ),
    "formats": (["core/wiretape/recording/formats"], ["tests/formats", "-m", "'not hypothesis'"]),
    "probe": (
        ["inspect/wiretape_inspect/probe", f"{SERVICE}/probe"],
        ["tests/probe", "-m", "'not hypothesis'"],
    ),
}
"""What is changed, and the tests that should notice, the quickest first."""
CONFIG = """
[cosmic-ray]
module-path = {modules}
timeout = 1800
excluded-modules = ["**/vectors/**"]
test-command = {command!r}
[cosmic-ray.distributor]
name = "local"
"""
POINTLESS = ("BitOr", "RemoveDecorator", "VariableReplacer", "VariableInserter")
"""Changes of type hints, or that nothing survives: they would make the share look better than it is."""
SAME = ("_Eq_Is", "_Is_Eq", "_IsNot_NotEq", "_NotEq_IsNot")
"""Ends of changes between `==` and `is`, which are the same for small numbers, types and members of enumerations."""
EQUIVALENT = {
    (each["before"], each["after"]): each["why"]
    for each in tomllib.loads(Path(__file__).with_name("equivalent_mutants.toml").read_text())["mutant"]
}
"""For the changed line before and after, why nothing changes."""
KILLED = {TestOutcome.KILLED, TestOutcome.INCOMPETENT}
MEMORY = 4 << 30
"""Bytes of address space for each process of the tests."""


def main() -> int:
    """Print what survived in each group, and a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("python", type=Path)
    parser.add_argument("groups", nargs="*", choices=[*GROUPS, []], metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--sample", type=int, default=50, help="changes of each group that are tried (default 50)")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    table = []
    with tempfile.TemporaryDirectory(prefix="wiretape-mutants-") as folder:
        tree = Path(folder, "tree")
        listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)  # noqa: S607
        for name in listed.stdout.splitlines():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
        for name in given.groups or GROUPS:
            tried, same, killed, total = run_group(name, tree, given)
            share = killed / max(tried - same, 1)
            table.append(f"{name:10} {killed:4} of {tried - same:4} killed, {share:4.0%} ({total:,} possible)")
    print(*table, sep="\n")
    return 0


def run_group(name: str, tree: Path, given: argparse.Namespace) -> tuple[int, int, int, int]:
    """Return how many changes were tried, survived because they are equivalent, were noticed, and are possible."""
    modules, tests = GROUPS[name]
    python = Path(os.path.abspath(given.python))  # not its target, which has no packages  # noqa: PTH100
    command = f"{python} -m pytest -q -x -p no:cacheprovider --hypothesis-profile=same {' '.join(tests)}"
    config, session = tree / f"{name}.toml", tree / f"{name}.sqlite"
    config.write_text(CONFIG.format(modules=modules, command=command))
    environment = os.environ | {"PYTHONPATH": ":".join(str(tree / source) for source in SOURCES)}

    # A changed loop can take all memory of the machine; the tests need half a gigabyte.
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))

    def run(*arguments: str | Path) -> None:
        program = Path(sys.executable).with_name("cosmic-ray")
        subprocess.run([program, *arguments], cwd=tree, env=environment, check=True, stdout=subprocess.DEVNULL)

    run("init", config, session)
    with use_db(session, WorkDB.Mode.open) as jobs:
        items = {item.job_id: item.mutations[0] for item in jobs.work_items}
        useful = [job for job, each in items.items() if not any(word in each.operator_name for word in POINTLESS)]
        # The ids of jobs are random; a seed has to choose the same changes of the same code.
        useful.sort(key=lambda job: (str(items[job].module_path), items[job].operator_name, items[job].occurrence))
        sample = set(random.Random(given.seed).sample(useful, min(given.sample, len(useful))))  # noqa: S311
        skipped = WorkResult(worker_outcome=WorkerOutcome.SKIPPED)
        jobs.set_multiple_results(items.keys() - sample, skipped)
    run("baseline", config)
    run("exec", config, session)
    with use_db(session, WorkDB.Mode.open) as jobs:
        outcomes = {job: result for job, result in jobs.results if job in sample}
    same, killed = 0, sum(result.test_outcome in KILLED for result in outcomes.values())
    for job, result in outcomes.items():
        if result.test_outcome not in KILLED:
            operator = items[job].operator_name
            why = explain(operator, result.diff)
            same += why is not None
            print(f"== {name}: {operator} {f'is equivalent. {why}' if why else 'survived'}\n{result.diff}", flush=True)
    return len(outcomes), same, killed, len(useful)


def explain(operator: str, diff: str) -> str | None:
    """Return why a change that survived changes nothing; None if that is not known."""
    if operator.endswith(SAME):
        return "Both compare the same."
    lines = [line for line in diff.splitlines() if line[:1] in {"-", "+"} and line[:3] not in {"---", "+++"}]
    return EQUIVALENT.get((lines[0][1:].strip(), lines[-1][1:].strip()))


if __name__ == "__main__":
    sys.exit(main())
