"""The wheel and the sdist: complete, reproducible, and usable outside the checkout.

`make release-check` installs them with pip, pipx, uv and uvx, on every supported Python.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from email import message_from_bytes
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from wiretape import __version__
from wiretape.errors import MITMPROXY, OTLP

ROOT = Path(__file__).parents[2]
SPEC = spec_from_file_location("release_check", ROOT / ".ci" / "release_check.py")
release_check = module_from_spec(SPEC)
SPEC.loader.exec_module(release_check)
CHECKOUT = next(path for path, meaning in release_check.names_of_machine().items() if meaning == "the checkout")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
NAME = f"wiretape-{__version__}"
WHEEL = f"{NAME}-py3-none-any.whl"
SDIST = f"{NAME}.tar.gz"
ENV = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WIRETAPE_"))}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder with both packages, which are built twice: from the checkout and from the sdist."""
    folder = tmp_path_factory.mktemp("dist")
    release_check.build_twice(ROOT, folder)
    return folder


def sources(*folders: str) -> set[str]:
    """The files that git tracks, or would after `git add`."""
    listing = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    command = ["git", "-c", "safe.directory=*", *listing, *folders]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    return {name for name in names if name and (ROOT / name).is_file()}


def test_the_wheel_contains_every_file_of_the_packages(built):
    target = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    packages = target["packages"]
    with zipfile.ZipFile(built / WHEEL) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
        metadata = message_from_bytes(wheel.read(f"{NAME}.dist-info/METADATA"))
        assert "MIT" in wheel.read(f"{NAME}.dist-info/licenses/LICENSE").decode()

    data = {f"{NAME}.data/data/{name}" for name in target["shared-data"].values()}
    assert names == {name.partition("/")[2] for name in sources(*packages)} | data
    assert {f"{package}/py.typed" for package in map(os.path.basename, packages)} <= names
    assert (metadata["Version"], metadata["Metadata-Version"]) == (__version__, "2.4")


def test_the_sdist_contains_every_file_of_the_repository(built):
    with tarfile.open(built / SDIST) as sdist:
        names = {member.name.removeprefix(f"{NAME}/") for member in sdist.getmembers()}

    assert names == {*sources(), "PKG-INFO"}


def test_the_packages_pass_the_checks_of_a_release(built):
    for name in (WHEEL, SDIST):
        assert release_check.find_problems(built / name, __version__) == []


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("\nVersion: ", "\nVersion: 9.", f"it is wiretape 9.{__version__}, expected wiretape {__version__}"),
        ("License-Expression: MIT", "License-Expression: none", "'none' is invalid for 'license-expression'"),
        ("Summary: ", "Maintainer: ", "no Summary in its metadata"),
        ("# wiretape", f"# {CHECKOUT}/README", f"METADATA contains {CHECKOUT}, the checkout"),
        ("# wiretape", "# https://mirror.example/", "METADATA contains mirror.example, a host in the settings"),
    ],
)
def test_a_wrong_package_is_reported(built, tmp_path, monkeypatch, before, after, problem):
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://user:key@mirror.example/simple")
    with zipfile.ZipFile(built / WHEEL) as wheel, zipfile.ZipFile(tmp_path / WHEEL, "w") as changed:
        for name in wheel.namelist():
            data = wheel.read(name)
            changed.writestr(name, data.replace(before.encode(), after.encode(), 1) if "METADATA" in name else data)

    (found,) = release_check.find_problems(tmp_path / WHEEL, __version__)
    assert problem in found


def test_a_licence_that_asks_for_more_or_is_unknown_is_reported():
    licences = {"a": ["MIT"], "b": ["", "BSD License"], "c": ["LGPL-3.0"], "d": ["GPL-3.0-only"], "e": [""]}
    assert release_check.find_licence_problems(licences) == ["d: GPL-3.0-only", "e: no licence stated"]


def install(wheel: Path, folder: Path) -> None:
    """Install a wheel without the packages that it needs."""
    pip = [sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "--disable-pip-version-check"]
    command = [*pip, "install", "--quiet", "--no-compile", "--no-index", "--no-deps", wheel]
    subprocess.run(command, env=ENV, check=True, capture_output=True, timeout=100)


def make_environment(folder: Path) -> None:
    """Make an environment with the packages of this one, apart from wiretape."""
    venv.create(folder, symlinks=True)
    (site_packages,) = folder.glob("lib/python*/site-packages")
    needed = [path for path in sys.path if path.endswith("-packages")]
    (site_packages / "needed.pth").write_text("\n".join(needed), "utf-8")


@pytest.fixture(scope="module")
def installed(built, tmp_path_factory):
    """A fresh environment with the wheel; the packages that it needs are those of this environment."""
    folder = tmp_path_factory.mktemp("fresh")
    make_environment(folder)
    install(built / WHEEL, folder)
    return folder / "bin"


@pytest.mark.timeout(300)
def test_the_commands_of_the_readme_work_with_the_wheel(installed, tmp_path):
    where = "import wiretape, wiretape_inspect, wiretape_proxy, wiretape_replay as r; print(r.__file__)"
    done = subprocess.run([installed / "python", "-c", where], cwd=tmp_path, env=ENV, capture_output=True, check=True)
    assert Path(done.stdout.decode()).is_relative_to(installed.parent)

    smoke = shutil.copy(ROOT / ".ci" / "smoke.py", tmp_path)
    command = [sys.executable, "-I", smoke, ROOT / "README.md", installed / "wiretape"]
    done = subprocess.run(command, cwd=tmp_path, env=ENV, capture_output=True, text=True, check=False, timeout=280)

    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r"\d\d commands of README.md work\n", done.stdout)


def test_the_version_is_in_one_place():
    """Everything else reads it: the package's metadata, `--version`, recordings and reports."""
    version = re.compile(rf"(?<![\d.]){re.escape(__version__)}(?![\d.])")
    code = [name for name in sources("core", "contracts", "proxy", "replay", "inspect") if name.endswith(".py")]

    assert [name for name in code if version.search((ROOT / name).read_text("utf-8"))] == ["core/wiretape/__init__.py"]
    assert "version" in PROJECT["project"]["dynamic"]


def test_the_hints_name_what_the_extras_install():
    extras = PROJECT["project"]["optional-dependencies"]
    assert (extras["proxy"], extras["otlp"]) == ([MITMPROXY], [OTLP])


SERVICE = "contracts/wiretape_contracts/agent_sessions"
ENTRY_POINT = re.compile(r'^agent-sessions = "wiretape_contracts\.agent_sessions\b.*\n', re.MULTILINE)
ABOUT_SERVICE = re.compile(
    r"agent.sessions|/v1/sessions|run\.started|message\.delta|tool\.started|SEQ\d?\d?\d?\b|wiretape demo"
)
GENERIC_TESTS = ("sse", "core", "contract", "formats", "recording")
OTHERS = ("test_repository.py", "test_files.py", "test_refusals.py", "test_cli.py", "test_har_firefox.py")
"""Tests that need the history of the repository, try every command, or read a file with traffic of the service."""


@pytest.fixture(scope="module")
def without_service(tmp_path_factory):
    """A copy of the tree without the package of the service, and an environment with the wheel that it makes."""
    tree, folder = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("environment")
    for name in sources():
        if not name.startswith(f"{SERVICE}/"):
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, tree / name)
    text = (tree / "pyproject.toml").read_text("utf-8")
    assert len(ENTRY_POINT.findall(text)) == 4
    (tree / "pyproject.toml").write_text(ENTRY_POINT.sub("", text), "utf-8")
    release_check.build(tree, tree / "dist")
    make_environment(folder)
    install(tree / "dist" / WHEEL, folder)
    return tree, folder / "bin"


def is_generic(path: Path) -> bool:
    return path.name not in OTHERS and not ABOUT_SERVICE.search(path.read_text("utf-8"))


@pytest.mark.timeout(300)
def test_without_the_package_of_the_service_the_tests_of_the_rest_pass(without_service):
    tree, programs = without_service
    listed = subprocess.run(
        [programs / "wiretape", "contract", "list"], cwd=tree, env=ENV, capture_output=True, text=True, check=True
    )
    names = [line.split()[0] for line in listed.stdout.splitlines()]
    assert "sse" in names
    assert "agent-sessions" not in names
    files = [path for name in GENERIC_TESTS for path in (tree / "tests" / name).glob("test_*.py") if is_generic(path)]
    assert len(files) > 20
    command = [programs / "python", "-m", "pytest", "--quiet", "--numprocesses=auto", "-p", "no:cacheprovider", *files]
    done = subprocess.run(command, cwd=tree, env=ENV, capture_output=True, text=True, check=False, timeout=280)
    assert done.returncode == 0, done.stdout[-5000:]


@pytest.mark.timeout(100)
def test_the_package_of_the_service_can_be_installed_apart(without_service, tmp_path):
    _, programs = without_service
    shutil.copytree(ROOT / SERVICE, tmp_path / "wiretape_contracts" / "agent_sessions")
    groups = {
        group: points["agent-sessions"]
        for group, points in PROJECT["project"]["entry-points"].items()
        if "agent-sessions" in points
    }
    tables = [f'[project.entry-points."{group}"]\nagent-sessions = "{point}"\n' for group, point in groups.items()]
    project = """[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"
[project]
name = "agent-sessions"
version = "1"
[tool.hatch.build.targets.wheel]
only-include = ["wiretape_contracts/agent_sessions"]
"""
    (tmp_path / "pyproject.toml").write_text(project + "".join(tables), "utf-8")
    wheel, _ = release_check.build(tmp_path, tmp_path / "dist")
    install(wheel, programs.parent)

    command = [programs / "wiretape", "contract", "test", "agent-sessions"]
    done = subprocess.run(command, cwd=tmp_path, env=ENV, capture_output=True, text=True, check=True)
    assert "87 rules, 316 of 316 examples do what they are for." in done.stdout
    listed = subprocess.run(
        [programs / "wiretape", "serve", "--list"], cwd=tmp_path, env=ENV, capture_output=True, check=True
    )
    assert b"hello" in listed.stdout
