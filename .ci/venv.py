"""Make a virtual environment, or bring it up to date: what requirements.lock holds, and wiretape itself, editable.

    python3 .ci/venv.py .venv

Does nothing, quickly, when the environment is as it should be.  One that was made with another Python, or
elsewhere, is made again.  Says what it does in a line or two; what pip says goes to install.log in the environment.
"""

from __future__ import annotations  # so that an older Python gets as far as being told

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
    """Bring the environment in `folder` up to date."""
    if sys.version_info < OLDEST:
        sys.exit(
            f"wiretape needs Python 3.11 or later, and this is {sys.version.split()[0]}: try make PYTHON=python3.12"
        )
    stamp = folder / "wiretape-installed.json"
    wanted = json.dumps({"place": str(folder), "python": _python(), "versions": _digest()}, indent=1)
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    began = time.monotonic()
    _remove_what_does_not_fit(folder)
    if not folder.exists():
        _say(f"making {folder.name} with Python {sys.version.split()[0]}")
        _run([sys.executable, "-m", "venv", str(folder)], None)
    _install(folder)
    stamp.write_text(wanted)
    _say(f"ready in {time.monotonic() - began:.0f} s")


def _python() -> list[str]:
    """Which Python this is; two environments made with the same one have the same."""
    return [sys.version, sys.base_prefix]


def _digest() -> str:
    """Changes when something has to be installed anew."""
    return hashlib.sha256((ROOT / "pyproject.toml").read_bytes() + LOCK.read_bytes()).hexdigest()


def _remove_what_does_not_fit(folder: Path) -> None:
    if not folder.exists():
        return
    if not (folder / "pyvenv.cfg").is_file():
        sys.exit(f"{folder} is there already and is no virtual environment: name another with make VENV=...")
    if _made_with(folder) != _python() or not _stands_where_it_was_made(folder):
        _say(f"{folder.name} was made with another Python, or elsewhere: it is made again")
        shutil.rmtree(folder)


def _made_with(folder: Path) -> object:
    try:
        answer = subprocess.run([str(folder / "bin" / "python"), "-c", PROBE], stdout=subprocess.PIPE, check=True)
        return json.loads(answer.stdout)
    except (OSError, subprocess.CalledProcessError, ValueError):
        return None


def _stands_where_it_was_made(folder: Path) -> bool:
    """Whether its scripts, which name their interpreter in full, still work."""
    pip = folder / "bin" / "pip"
    return pip.is_file() and str(folder) in pip.read_text()


def _install(folder: Path) -> None:
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install"]
    log = folder / "install.log"
    with log.open("w") as output:
        _say("installing what requirements.lock holds (about a minute the first time)")
        _run([*pip, "--require-hashes", "-r", str(LOCK)], output)
        _run([*pip, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)], output)


def _run(command: list[str], output: IO[str] | None) -> None:
    """Run a command; if it fails, show the end of what it said, and stop."""
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
    sys.exit(f"failed: {' '.join(command)}\nAll that it said is in {log}")


def _say(what: str) -> None:
    print(f"[venv] {what}", flush=True)


if __name__ == "__main__":
    try:
        main(Path(sys.argv[1]).resolve())
    except KeyboardInterrupt:
        sys.exit(130)
