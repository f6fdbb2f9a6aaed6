"""Install the wheel and the sdist in every way of docs/install.md, without an index, and use them.

    python .ci/packages.py build/packages

Builds both packages, downloads what they need into a folder, which needs an index, and prints a table: the command, the
version of Python, and the result.  Each installation is a fresh environment on the oldest or the newest Python here.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
SMOKE = ROOT / ".ci" / "smoke.py"
VERSIONS = ("3.11", "3.12", "3.13", "3.14")


def find_pythons() -> list[Path]:
    """Return the oldest and the newest Python here that wiretape supports."""
    found = [path for version in VERSIONS for path in _candidates(version) if _is_usable(path, version)]
    return list(dict.fromkeys((found[0], found[-1])))


def _candidates(version: str) -> Iterator[Path]:
    home = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted(home.glob(f"versions/{version}.*/bin/python"))[-1:]
    if on_path := shutil.which(f"python{version}"):
        yield Path(on_path)


def _is_usable(path: Path, version: str) -> bool:
    code = "import sys, ensurepip, sqlite3, ssl, venv; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip() == version


def run(*command: str | Path, folder: Path = ROOT, env: dict[str, str] | None = None) -> str:
    """Run a command and return its output; print the end of it and exit if the command fails."""
    done = subprocess.run(
        command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"failed: {' '.join(map(str, command))}\n{done.stdout[-2000:]}")
    return done.stdout


def download(wheel: Path, pythons: list[Path], folder: Path) -> None:
    """Download what the wheel needs, and the installers, in the versions of the lock file."""
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(re.findall(r"^\S+==\S+(?: ; [^\\\n]*)?", LOCK.read_text(), re.MULTILINE)))
    for python in pythons:
        command = (python, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check")
        run(*command, "--wheel-dir", folder, "--constraint", constraints, f"{wheel}[proxy]", "hatchling", "pipx", "uv")


def install(package: Path, python: Path, tools: Path, folder: Path, env: dict[str, str]) -> Iterator[tuple[str, ...]]:
    """Install a package in every way; yield what a user types, and the command that then runs wiretape."""
    wanted = f"./{package.name}[proxy]"
    environment = folder / "pip"
    run(python, "-m", "venv", environment)
    run(environment / "bin" / "pip", "install", wanted, folder=package.parent, env=env)
    yield f"pip install {wanted}", str(environment / "bin" / "wiretape")
    env = {
        **env,
        "PIPX_HOME": f"{folder}/pipx",
        "PIPX_BIN_DIR": f"{folder}/pipx/bin",
        "PIPX_DEFAULT_PYTHON": str(python),
    }
    run(tools / "pipx", "install", wanted, folder=package.parent, env=env)
    yield f"pipx install {wanted}", f"{folder}/pipx/bin/wiretape"
    uv = {**env, "UV_TOOL_DIR": f"{folder}/uv", "UV_TOOL_BIN_DIR": f"{folder}/uv/bin"}
    run(tools / "uv", "tool", "install", "--python", python, wanted, folder=package.parent, env=uv)
    yield f"uv tool install {wanted}", f"{folder}/uv/bin/wiretape"
    # An absolute path: the command runs in another folder.
    source = f"{package}[proxy]"
    yield f"uvx --from {wanted} wiretape", str(tools / "uvx"), "--python", str(python), "--from", source, "wiretape"


def main(folder: Path) -> None:
    """Build, download, install and use the packages."""
    shutil.rmtree(folder, ignore_errors=True)
    wheels = folder / "wheels"
    wheels.mkdir(parents=True)
    run(sys.executable, "-m", "hatchling", "build", "--directory", folder)
    pythons = find_pythons()
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    print(f"downloading packages for {' and '.join(python.parent.parent.name for python in pythons)}", flush=True)
    download(wheel, pythons, wheels)
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
    run(folder / "tools" / "bin" / "pip", "install", "pipx", "uv", env=env)
    print("\n| Command | Python | Result |\n|---|---|---|")
    for python in pythons:
        version = run(python, "-c", "import platform; print(platform.python_version())").strip()
        for package in (wheel, sdist):
            made = folder / f"{version}-{package.suffix[1:]}"
            began = time.monotonic()
            for typed, *command in install(package, python, folder / "tools" / "bin", made, env):
                done = run(python, "-I", SMOKE, *command, folder=folder, env=env).strip()
                print(f"| `{typed}` | {version} | {done} in {time.monotonic() - began:.0f} s |", flush=True)
                began = time.monotonic()
            shutil.rmtree(made)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
