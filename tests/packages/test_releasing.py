"""`.ci/release.py`, as docs/releasing.md describes it."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n### Added\n\n- A thing.\n\n## [0.1.0] - 2025-01-01\n\n- All.\n"


@pytest.fixture
def repository(tmp_path):
    """A small repository with this project's build."""
    for name in ("core/wiretape/__init__.py", ".ci/release.py", "pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("proxy/wiretape_proxy", "replay/wiretape_replay", "inspect/wiretape_inspect"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "CHANGELOG.md").write_text(CHANGELOG, "utf-8")
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "-c", "user.name=x", "-c", "user.email=x", "commit", "--quiet", "-m", "Begin")
    return tmp_path


def git(folder, *arguments):
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def release(folder, version):
    command = [sys.executable, folder / ".ci" / "release.py", version]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=50)


def test_a_release_sets_the_version_dates_the_changes_and_builds(repository):
    done = release(repository, "0.2.0")

    assert done.returncode == 0, done.stderr
    assert "dist/wiretape-0.2.0-py3-none-any.whl\ndist/wiretape-0.2.0.tar.gz\n" in done.stdout
    changelog = (repository / "CHANGELOG.md").read_text("utf-8")
    dated = re.sub(r"\[0.2.0\] - \d{4}-\d\d-\d\d\n", "[0.2.0] - DATE\n", changelog)
    assert dated == CHANGELOG.replace("[Unreleased]\n", "[Unreleased]\n\n## [0.2.0] - DATE\n")
    assert git(repository, "status", "--porcelain").split() == ["M", "CHANGELOG.md", "M", "core/wiretape/__init__.py"]

    assert "uncommitted" in release(repository, "0.3.0").stderr


@pytest.mark.parametrize(("version", "message"), [("next", "expected three numbers"), ("0.1.0", "released already")])
def test_a_wrong_version_changes_nothing(repository, version, message):
    done = release(repository, version)

    assert (done.returncode, message in done.stderr) == (1, True)
    assert git(repository, "status", "--porcelain") == ""
