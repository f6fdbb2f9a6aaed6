"""Prepare a release: the version, the changelog, and the packages in dist.

    python .ci/release.py 0.2.0

Changes `__version__` and CHANGELOG.md, builds twice into dist and compares.  Commits, tags and uploads nothing.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSION = ROOT / "core" / "wiretape" / "__init__.py"
CHANGELOG = ROOT / "CHANGELOG.md"
_ASSIGNMENT = re.compile(r'^__version__ = "(.*)"$', re.MULTILINE)
_NUMBER = re.compile(r"\d+\.\d+\.\d+")
_UNRELEASED = "## [Unreleased]\n"


def released(changelog: str, version: str, date: str) -> str:
    """Return the changelog with its unreleased changes under a version.  Exits if there are none."""
    before, heading, after = changelog.partition(_UNRELEASED)
    changes = after.partition("\n## [")[0]
    if not heading or "\n- " not in changes:
        sys.exit("CHANGELOG.md lists no changes under [Unreleased]: add them first.")
    return f"{before}{heading}\n## [{version}] - {date}\n{after}"


def main(version: str) -> None:
    """Prepare a release of this version."""
    text = VERSION.read_text()
    current = _ASSIGNMENT.search(text)
    changelog = CHANGELOG.read_text()
    if _NUMBER.fullmatch(version) is None or current is None:
        sys.exit(f"Invalid version {version}: expected three numbers, for example 0.2.0.")
    if f"## [{version}]" in changelog or _parts(version) < _parts(current[1]):
        sys.exit(f"Version {version} is released already, or older than {current[1]}: choose a later one.")
    if _git("status", "--porcelain"):
        sys.exit("There are uncommitted changes: commit them first.")
    CHANGELOG.write_text(released(changelog, version, f"{datetime.now(UTC):%Y-%m-%d}"))
    VERSION.write_text(_ASSIGNMENT.sub(f'__version__ = "{version}"', text))
    for package in _build_twice(ROOT / "dist"):
        print(package.relative_to(ROOT))
    print(f"Next: git commit -am 'Release {version}' && git tag v{version}")


def _parts(version: str) -> list[int]:
    return [int(part) for part in version.split(".")]


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout  # noqa: S607


def _build_twice(folder: Path) -> list[Path]:
    """Build into an empty folder, and again to compare.  Exits if the packages differ."""
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as again:
        for target in (str(folder), again):
            subprocess.run([sys.executable, "-m", "hatchling", "build", "--directory", target], cwd=ROOT, check=True)
        packages = sorted(folder.iterdir())
        for package in packages:
            if package.read_bytes() != Path(again, package.name).read_bytes():
                sys.exit(f"Two builds of {package.name} differ: find out why before you publish it.")
    return packages


if __name__ == "__main__":
    main(sys.argv[1])
