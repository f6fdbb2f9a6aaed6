"""The layout of the repository, and text that must not be in it."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import yaml
from for_each import for_each
from programs import find_program

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = ["core", "contracts", "proxy", "replay", "inspect"]


def run(*command, cwd=ROOT, **env) -> subprocess.CompletedProcess[str]:
    """Run a command without the environment variables of this pytest run."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "WIRETAPE_"))}
    return subprocess.run(command, cwd=cwd, env=clean | env, capture_output=True, text=True, check=False, timeout=50)


def tracked_files() -> list[str]:
    """Return the names of the tracked files."""
    listing = run(find_program("git"), "-c", "safe.directory=*", "ls-files", "-z")
    assert listing.returncode == 0, listing.stderr
    return [name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]


@for_each("root", SOURCE_ROOTS)
def test_no_module_is_directly_in_a_source_root(root):
    """A top-level module `inspect` would shadow that of the standard library."""
    assert list((ROOT / root).glob("*.py*")) == []
    assert [path.name for path in (ROOT / root).iterdir() if path.is_dir() and path.name != "__pycache__"] == [
        {"core": "wiretape"}.get(root, f"wiretape_{root}")
    ]


def test_the_standard_librarys_inspect_is_importable_from_the_root_of_the_repository():
    result = run(sys.executable, "-c", "import inspect, aiohttp, jsonschema; print(inspect.__file__)")
    assert result.returncode == 0, result.stderr
    assert Path(result.stdout.strip()).parent == Path(os.__file__).parent


def test_mypy_checks_every_folder_except_the_tests():
    checked = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mypy"]["files"]
    folders = {name.partition("/")[0] for name in tracked_files() if name.endswith(".py")}
    assert folders - {"tests"} == set(checked)


def test_the_workflow_runs_all_checks():
    """It is a thin layer: everything is in .ci/run."""
    (workflow,) = (ROOT / ".github" / "workflows").iterdir()
    (job,) = yaml.safe_load(workflow.read_text("utf-8"))["jobs"].values()
    assert [step["run"] for step in job["steps"] if "run" in step] == [".ci/run"]


def test_the_names_of_test_files_are_unique():
    """The tests are not a package, so modules with the same name would collide."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)


# The brackets keep the expression from matching itself.
UNWANTED = re.compile(
    r"pyp[i]\.org|pythonhoste[d]|npmj[s]\.(?:org|com)|deb\.debia[n]\.org"
    r"|(?<![\w.-])/(?:wor[k]|far[m]|roo[t]|tm[p]/v)/"
)


def test_no_file_contains_a_package_registry_or_a_path_of_the_authors_machine():
    found = [
        f"{name}:{number}: {line.strip()[:120]}"
        for name in tracked_files()
        for number, line in enumerate((ROOT / name).read_text(errors="replace").splitlines(), 1)
        if UNWANTED.search(line)
    ]
    assert found == []
