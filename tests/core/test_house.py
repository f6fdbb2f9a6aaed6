"""How the house is laid out, and what must never lie about in it."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = ["core", "proxy", "replay", "inspect"]


def run(*command, cwd=ROOT, **env) -> subprocess.CompletedProcess[str]:
    """Run a command as people do: without what this run of pytest put into the environment."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "WIRETAPE_"))}
    return subprocess.run(command, cwd=cwd, env=clean | env, capture_output=True, text=True, check=False, timeout=50)


def files_of_the_project() -> list[str]:
    """The names of the tracked files."""
    listing = run("git", "-c", "safe.directory=*", "ls-files", "-z")
    assert listing.returncode == 0, listing.stderr
    return [name for name in listing.stdout.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_no_module_stands_directly_in_a_source_root(root):
    """An importable top-level `inspect` would shadow the standard library's for everything started here."""
    assert list((ROOT / root).glob("*.py*")) == []
    assert [path.name for path in (ROOT / root).iterdir() if path.is_dir() and path.name != "__pycache__"] == [
        {"core": "wiretape"}.get(root, f"wiretape_{root}")
    ]


def test_the_standard_librarys_inspect_is_found_from_the_root_of_the_repository():
    result = run(sys.executable, "-c", "import inspect, aiohttp, jsonschema; print(inspect.__file__)")

    assert result.returncode == 0, result.stderr
    assert Path(result.stdout.strip()).parent == Path(os.__file__).parent


def test_pytest_starts_from_the_root_of_the_repository():
    assert run(sys.executable, "-m", "pytest", "--version").returncode == 0


def test_the_types_of_all_that_is_no_test_are_checked():
    checked = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["mypy"]["files"]
    folders = {name.partition("/")[0] for name in files_of_the_project() if name.endswith(".py")}

    assert folders - {"tests"} == set(checked)


def test_each_test_file_has_a_name_of_its_own():
    """Tests are no package, so two modules of one name could be taken for each other."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]

    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)


# Neither this expression nor the lines that try it hold what they look for.
UNWANTED = re.compile(
    r"pyp[i]\.org|pythonhoste[d]|npmj[s]\.(?:org|com)|deb\.debia[n]\.org"
    r"|(?<![\w.-])/(?:wor[k]|far[m]|roo[t]|tm[p]/v)/"
)


@pytest.mark.parametrize(
    "line",
    [
        "see https://pypi[.]org/simple",
        "files.python[]hosted.org",
        "http://deb.debian[.]org",
        "registry.npmjs[.]com",
        "in /work[/]main",
        "'/tmp/v[/]py311'",
        "/root[/]",
    ],
)
def test_addresses_and_machine_paths_are_recognised(line):
    assert UNWANTED.search(re.sub(r"\[(.?)\]", r"\1", line))


@pytest.mark.parametrize("line", ["the work/life balance", "a/root/b", "pypi", "https://example.org/work"])
def test_ordinary_lines_are_not_taken_for_them(line):
    assert not UNWANTED.search(line)


def test_no_file_names_a_registry_or_a_path_of_the_machine_it_was_written_on():
    found = [
        f"{name}:{number}: {line.strip()[:120]}"
        for name in files_of_the_project()
        for number, line in enumerate((ROOT / name).read_text(errors="replace").splitlines(), 1)
        if UNWANTED.search(line)
    ]

    assert found == []


SKIPS = """
import pytest

def test_runs(): pass

@pytest.mark.xfail
def test_fails_as_expected(): assert False
"""
SKIPPED_TEST = "\n@pytest.mark.skip(reason='no time')\ndef test_skipped(): pass\n"
SKIPPED_FILE = "\npytest.skip('no such library', allow_module_level=True)\n"


@pytest.mark.parametrize(
    ("code", "env", "status", "reason"),
    [
        (SKIPS, {"WIRETAPE_NO_SKIPS": "1"}, 0, ""),
        (SKIPS + SKIPPED_TEST, {}, 0, ""),
        (SKIPS + SKIPPED_TEST, {"WIRETAPE_NO_SKIPS": "1"}, 1, "test_it.py::test_skipped: Skipped: no time"),
        (SKIPS + SKIPPED_FILE, {"WIRETAPE_NO_SKIPS": "1"}, 1, "test_it.py: Skipped: no such library"),
    ],
    ids=["nothing skipped", "allowed", "a test", "a file"],
)
def test_a_skipped_test_fails_the_run_where_nothing_may_be_skipped(tmp_path, code, env, status, reason):
    shutil.copy(ROOT / "tests" / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text(code)

    result = run(sys.executable, "-m", "pytest", "-q", "-p", "no:anyio", "-p", "no:cacheprovider", cwd=tmp_path, **env)

    assert result.returncode == status, result.stdout
    assert reason in result.stdout
