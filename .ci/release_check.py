"""Rehearse a release: build, inspect, install and use the packages, and print the steps that are left.

    python .ci/release_check.py build/release

Builds both packages twice and compares their bytes, checks their metadata and files, and installs them without an
index: with pip on every supported Python that is here, with pipx, uv and uvx on the oldest and the newest.  In each
installation with pip, it runs the README's commands and reads the licences of all dependencies.  At last, it runs the
tests with the lowest versions that pyproject.toml allows.  Downloads need an index.
"""

import email
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

from packaging.metadata import Metadata

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
SMOKE = ROOT / ".ci" / "smoke.py"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")
_SHARED_FOLDERS = {Path(name) for name in ("/", "/home", "/opt", "/root", "/tmp", "/usr", "/usr/local", "/Users")}  # noqa: S108
"""Folders of many machines, which say nothing about this one."""
_ANY_MACHINE = {"localhost", "localhost.localdomain"}
_LICENCES = re.compile(
    r"\b(MIT|Permission is hereby granted, free of charge|BSD|Apache|ISC|Zlib|CC0|Public Domain|PSF"
    "|Python Software Foundation|CNRI|MPL|Mozilla|LGPL|Lesser General)"
)
"""Licences of packages that a program under the MIT licence may require.  It contains none of them."""
_PRINT_LICENCES = """
import json
from importlib.metadata import distributions
def licences(package):
    stated = package.metadata.get("License-Expression") or (package.metadata.get("License") or "")[:100]
    classifiers = [name for name in package.metadata.get_all("Classifier") or () if name.startswith("License ::")]
    text = package.read_text("licenses/LICENSE") or ""
    return [stated, *classifiers] if stated or classifiers else [text[:200]]
print(json.dumps({each.name: licences(each) for each in distributions()}))
"""
_BY_HAND = """
Everything passed. Left to do by hand for version {version}:

1. Date its section in CHANGELOG.md, and commit.
2. Give pyproject.toml the address of the repository ([project.urls]), and the README's pictures absolute addresses:
   a package index shows neither relative links nor relative pictures.
3. git tag v{version}, run `make release-check` again in a fresh clone of the tag, and push the tag.
4. Publish the two files:
     {packages}
5. Replace `pip wheel . --no-deps` and the wheel's name in the guides and docs/install.md by `pip install wiretape`,
   and `@main` in the workflows of docs/guides/judge-your-service.md by the tag.
"""


def find_pythons() -> list[Path]:
    """Return each Python here that wiretape supports, the oldest first."""
    found = []
    for version in VERSIONS:
        usable = next((path for path in _candidates(version) if _is_usable(path, version)), None)
        print(f"Python {version}: {usable or 'not found here'}", flush=True)
        found += [usable] if usable else []
    return found


def _candidates(version: str) -> Iterator[Path]:
    home = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(home.glob(f"versions/{version}.*/bin/python"))[-1:]
    if on_path := shutil.which(f"python{version}"):
        yield Path(on_path)


def _is_usable(path: Path, version: str) -> bool:
    code = "import sys, ensurepip, sqlite3, ssl, venv; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() == version


def run(*command: str | Path, folder: Path = ROOT, env: dict[str, str] | None = None, umask: int = -1) -> str:
    """Run a command and return its output; print the end of it and exit if the command fails."""
    done = subprocess.run(
        command,
        cwd=folder,
        env=env,
        umask=umask,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{done.stdout[-2000:]}")
    return done.stdout


def build(source: Path, folder: Path, umask: int = -1, **variables: str) -> tuple[Path, Path]:
    """Build the wheel and the sdist.  Without SOURCE_DATE_EPOCH, hatchling gives every file the same date."""
    env = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"} | variables
    run(sys.executable, "-m", "hatchling", "build", "--directory", folder, folder=source, env=env, umask=umask)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def build_twice(source: Path, folder: Path) -> tuple[Path, Path]:
    """Build the packages, and again from the sdist: in another folder, time zone and language, with other modes."""
    packages = build(source, folder)
    unpacked = folder / "unpacked"
    with tarfile.open(packages[1]) as sdist:
        # Python 3.11.2 has no filters; the archive is our own.
        sdist.extractall(unpacked, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))  # type: ignore[arg-type]  # noqa: S202
    (tree,) = unpacked.iterdir()
    for path in tree.rglob("*"):
        os.utime(path, (1_000_000_000, 1_000_000_000))
        path.chmod(path.stat().st_mode & 0o700)
    again = build(tree, folder / "again", umask=0o077, TZ="Asia/Tokyo", LC_ALL="C")
    for package, other in zip(packages, again, strict=True):
        if package.read_bytes() != other.read_bytes():
            sys.exit(f"Two builds of {package.name} differ: find out why before you publish it.")
    shutil.rmtree(unpacked)
    shutil.rmtree(folder / "again")
    return packages


def read_package(package: Path) -> dict[str, bytes]:
    """Return the files of a wheel or an sdist by name."""
    if package.suffix == ".whl":
        with zipfile.ZipFile(package) as wheel:
            return {name: wheel.read(name) for name in wheel.namelist()}
    with tarfile.open(package) as sdist:
        members = ((member.name, sdist.extractfile(member)) for member in sdist.getmembers())
        return {name: file.read() for name, file in members if file}


def names_of_machine() -> dict[str, str]:
    """Return the paths and hosts that only this machine has, each with its meaning."""
    checkout = ROOT if ROOT.parent in _SHARED_FOLDERS else ROOT.parent
    paths = {
        checkout: "the checkout",
        Path.home(): "your home folder",
        Path(sys.base_prefix): "the folder of this Python",
    }
    names = {str(path): meaning for path, meaning in paths.items() if path not in _SHARED_FOLDERS}
    settings = run(sys.executable, "-m", "pip", "config", "list")
    settings += "".join(
        f"{name}={value}\n" for name, value in os.environ.items() if re.match("(PIP|UV|npm_config)_", name)
    )
    hosts = {socket.gethostname(), socket.getfqdn(), *re.findall(r"https?://(?:[^@/\s']*@)?([\w.-]+)", settings)}
    # A short name of a machine, such as "vm", is also a word.
    hosts = {host for host in hosts if len(host) > 4}
    names |= dict.fromkeys(hosts - _ANY_MACHINE, "a host in the settings of this machine")
    return names | dict.fromkeys(re.findall(r"file://(/[\w/.-]+)", settings), "an index on this machine")


def find_problems(package: Path, version: str) -> list[str]:
    """Return the errors in a package's metadata, and the files that name a path or a host of this machine."""
    files = read_package(package)
    (metadata,) = [data for name, data in files.items() if re.fullmatch(r"[^/]+/(METADATA|PKG-INFO)", name)]
    problems = []
    try:
        read = Metadata.from_email(metadata, validate=True)
    except ExceptionGroup as group:
        return [f"{package.name}: {error}" for error in group.exceptions]
    if (read.name, str(read.version)) != ("wiretape", version):
        problems.append(f"{package.name}: it is {read.name} {read.version}, expected wiretape {version}")
    described = email.message_from_bytes(metadata)
    wanted = ("Summary", "Requires-Python", "License-Expression", "License-File", "Description-Content-Type")
    problems += [f"{package.name}: no {name} in its metadata" for name in wanted if not described[name]]
    for text, meaning in names_of_machine().items():
        pattern = re.compile(rb"(?<![\w.-])" + re.escape(text.encode()) + rb"(?![\w-])")
        found = [name for name, data in files.items() if pattern.search(data)]
        problems += [f"{package.name}: {name} contains {text}, {meaning}" for name in found]
    return problems


def find_other_versions(version: str) -> list[str]:
    """Return the pages that name another version of wiretape."""
    pages = [page for page in (ROOT / "docs").rglob("*") if page.suffix in {".1", ".md"}]
    named = [(page, re.findall(r"\bwiretape[ -](\d+\.\d+\.\d+)", page.read_text("utf-8"))) for page in pages]
    problems = {
        f"{page}: it names version {found}" for page, all_found in named for found in all_found if found != version
    }
    return sorted(problems)


def find_licence_problems(licences: dict[str, list[str]]) -> list[str]:
    """Return the packages whose licence is unknown, or asks for more than wiretape's own."""
    stated = {name: ", ".join(filter(None, texts)) for name, texts in licences.items()}
    return [f"{name}: {text or 'no licence stated'}" for name, text in stated.items() if not _LICENCES.search(text)]


def download(wheel: Path, pythons: list[Path], folder: Path) -> None:
    """Download what the wheel needs, and the installers, in the versions of the lock file."""
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(re.findall(r"^\S+==\S+(?: ; [^\\\n]*)?", LOCK.read_text(), re.MULTILINE)))
    for python in pythons:
        command = (python, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--wheel-dir", folder)
        run(*command, "--constraint", constraints, f"{wheel}[proxy,otlp,dask]", "hatchling", "pipx", "uv")


def install_with_pip(package: Path, python: Path, folder: Path, env: dict[str, str]) -> Path:
    """Install a package in a new environment and return the path of its programs."""
    run(python, "-m", "venv", folder)
    run(folder / "bin" / "pip", "install", f"./{package.name}[proxy]", folder=package.parent, env=env)
    return folder / "bin"


def install_otherwise(
    package: Path, python: Path, tools: Path, folder: Path, env: dict[str, str]
) -> Iterator[tuple[str, ...]]:
    """Install a package with other programs; yield what a user types, and the command that then runs wiretape."""
    wanted = f"./{package.name}[proxy]"
    env |= {f"PIPX_{name}": f"{folder}/pipx/{name}" for name in ("HOME", "BIN_DIR")}
    env |= {"PIPX_DEFAULT_PYTHON": str(python), "UV_TOOL_DIR": f"{folder}/uv", "UV_TOOL_BIN_DIR": f"{folder}/uv/bin"}
    run(tools / "pipx", "install", wanted, folder=package.parent, env=env)
    yield f"pipx install {wanted}", f"{folder}/pipx/BIN_DIR/wiretape"
    run(tools / "uv", "tool", "install", "--python", python, wanted, folder=package.parent, env=env)
    yield f"uv tool install {wanted}", f"{folder}/uv/bin/wiretape"
    # An absolute path: the command runs in another folder.
    source = f"{package}[proxy]"
    yield f"uvx --from {wanted} wiretape", str(tools / "uvx"), "--python", str(python), "--from", source, "wiretape"


def use(packages: tuple[Path, Path], pythons: list[Path], folder: Path) -> dict[str, list[str]]:
    """Install and use the packages in every way; print a table.  Return the licences of all dependencies."""
    wheels = folder / "wheels"
    wheels.mkdir()
    download(packages[0], pythons, wheels)
    # Only what a program needs to run: no configuration, and no index.
    env = {
        "HOME": str(folder),
        "PATH": os.environ["PATH"],
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_FIND_LINKS": str(wheels),
        "PIP_NO_INDEX": "1",
        "UV_FIND_LINKS": str(wheels),
        "UV_NO_CONFIG": "1",
        "UV_NO_INDEX": "1",
        "UV_OFFLINE": "1",
        "UV_PYTHON_DOWNLOADS": "never",
    }
    run(pythons[0], "-m", "venv", folder / "tools")
    tools = folder / "tools" / "bin"
    run(tools / "pip", "install", "pipx", "uv", env=env)
    licences: dict[str, list[str]] = {}
    print("\n| Command | Python | Result |\n|---|---|---|")
    for python in pythons:
        version = run(python, "-c", "import platform; print(platform.python_version())").strip()
        for package in packages:
            made = folder / f"{version}-{package.suffix[1:]}"
            began = time.monotonic()
            programs = install_with_pip(package, python, made, env)
            done = run(python, "-I", SMOKE, ROOT / "README.md", programs / "wiretape", folder=folder, env=env)
            _print_row(f"pip install ./{package.name}[proxy]", version, done, began)
            if package.suffix == ".whl":
                run(programs / "pip", "install", f"{package}[proxy,otlp,dask]", env=env)
                licences |= json.loads(run(programs / "python", "-c", _PRINT_LICENCES))
            if python in {pythons[0], pythons[-1]}:
                began = time.monotonic()
                for typed, *command in install_otherwise(package, python, tools, made, env):
                    printed = run(*command, "--version", env=env).splitlines()
                    _print_row(typed, version, next(line for line in printed if line.startswith("wiretape ")), began)
                    began = time.monotonic()
            shutil.rmtree(made)
    return licences


def _print_row(typed: str, version: str, done: str, began: float) -> None:
    print(f"| `{typed}` | {version} | {done.strip()} in {time.monotonic() - began:.0f} s |", flush=True)


def main(folder: Path) -> None:
    """Rehearse a release in an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    pythons = find_pythons()
    packages = build_twice(ROOT, folder)
    version = packages[0].name.split("-")[1]
    print(f"two builds of wiretape {version} have the same bytes", flush=True)
    problems = [problem for package in packages for problem in find_problems(package, version)]
    if f"\n## [{version}]" not in (ROOT / "CHANGELOG.md").read_text("utf-8"):
        problems.append(f"CHANGELOG.md has no section for version {version}")
    problems += find_other_versions(version)
    if not problems:
        licences = use(packages, pythons, folder)
        problems = find_licence_problems(licences)
        print(f"\nread the licences of {len(licences)} packages", flush=True)
    if problems:
        sys.exit("\n".join(problems))
    subprocess.run(["make", "test-lowest", f"PYTHON={pythons[0]}"], cwd=ROOT, check=True)  # noqa: S607
    print(_BY_HAND.format(version=version, packages="\n     ".join(map(str, packages))))


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
