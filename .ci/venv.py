"""Create or update a virtual environment with the packages of requirements.lock, and wiretape itself, editable.

    python3 .ci/venv.py .venv

Does nothing if the environment is up to date.  Recreates one that was created with another Python or in another
folder.  Prints a line or two; pip's output goes to install.log in the environment.
"""

from __future__ import annotations  # so that an older Python gets as far as the version check

import hashlib
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
OLDEST = (3, 11)
PROBE = "import json, sys, pip; print(json.dumps([sys.version, sys.base_prefix]))"


def main(folder: Path) -> None:
    """Create or update the environment in `folder`."""
    if sys.version_info < OLDEST:
        sys.exit(
            f"wiretape needs Python 3.11 or later, but this is {sys.version.split()[0]}: try make PYTHON=python3.12"
        )
    stamp = folder / "wiretape-installed.json"
    wanted = json.dumps({"place": str(folder), "python": _python(), "versions": _digest()}, indent=1)
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    began = time.monotonic()
    _remove_outdated(folder)
    if not folder.exists():
        _say(f"creating {folder.name} with Python {sys.version.split()[0]}")
        _run([sys.executable, "-m", "venv", str(folder)], None)
    _install(folder)
    stamp.write_text(wanted)
    _say(f"ready in {time.monotonic() - began:.0f} s")


def _python() -> list[str]:
    """Return the identity of this Python, the same for all of its environments."""
    return [sys.version, sys.base_prefix]


def _digest() -> str:
    """Return a digest of the requirements."""
    return hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + LOCK.read_bytes()).hexdigest()


def _remove_outdated(folder: Path) -> None:
    if not folder.exists():
        return
    if not (folder / "pyvenv.cfg").is_file():
        sys.exit(f"{folder} exists and is not a virtual environment: choose another with make VENV=...")
    if _python_of(folder) != _python() or not _is_in_place(folder):
        _say(f"{folder.name} was created with another Python or in another folder: recreating it")
        shutil.rmtree(folder)


def _python_of(folder: Path) -> object:
    try:
        answer = subprocess.run([str(folder / "bin" / "python"), "-c", PROBE], stdout=subprocess.PIPE, check=True)
        return json.loads(answer.stdout)
    except (OSError, subprocess.CalledProcessError, ValueError):
        return None


def _is_in_place(folder: Path) -> bool:
    """Whether its scripts, which contain the path of their interpreter, still work."""
    pip = folder / "bin" / "pip"
    return pip.is_file() and str(folder) in pip.read_text()


def _install(folder: Path) -> None:
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check"]
    install = [*pip, "install"]
    log = folder / "install.log"
    with log.open("w") as output:
        _say("installing the packages of requirements.lock (about a minute the first time)")
        # The lock names every package.  Without --no-deps, the pip of Python 3.11 would take the newest release of a
        # package that another one requires with an extra, such as coverage[toml], and refuse it for its missing hash.
        _run([*install, "--no-deps", "--require-hashes", "-r", str(LOCK)], output)
        _run([*install, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)], output)
        _run([*pip, "check"], output)


def _run(command: list[str], output: IO[str] | None) -> None:
    """Run a command; if it fails, print the end of its output and exit."""
    if (
        subprocess.run(command, stdout=output, stderr=subprocess.STDOUT if output else None, check=False).returncode
        == 0
    ):
        return
    if output is None:
        sys.exit(f"failed: {' '.join(command)}")
    output.flush()
    log = Path(output.name)
    lines = [line for line in log.read_text(errors="replace").splitlines() if not line.startswith("Ignoring ")]
    print(*lines[-12:], sep="\n", file=sys.stderr)
    sys.exit(f"failed: {' '.join(command)}\nSee {log} for its whole output.")


def _say(what: str) -> None:
    print(f"[venv] {what}", flush=True)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]).resolve())
    except KeyboardInterrupt:
        sys.exit(130)
