"""Build the site of the docs: every warning is an error, and so is a page that loads anything from another host.

python .ci/site/build.py build/docs
"""

import re
import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import build_main

ROOT = Path(__file__).resolve().parents[2]
PICTURES = "docs/images"
_FETCHED = re.compile(
    r"""<(?:script|img|iframe|source|link|embed|object)\b[^>]*?(?:src|href|data)="(?:https?:)?//[^"]*"|"""
    r"""(?:url\(|@import\s+)["']?(?:https?:)?//[^"')]*"""
)
"""Markup that makes a browser load from another host; links are allowed."""


def fetched(site: Path) -> list[str]:
    """Return what pages and styles in the folder `site` load from other hosts, each with its file."""
    files = [path for path in sorted(site.rglob("*")) if path.suffix in {".html", ".css"}]
    return [f"{path.name}: {found}" for path in files for found in _FETCHED.findall(path.read_text("utf-8"))]


def main(site: Path) -> int:
    """Build into the folder `site`, and delete its old contents.  Returns 0 on success."""
    shutil.rmtree(site, ignore_errors=True)
    trees = site.with_name(f"{site.name}-trees")
    shutil.rmtree(trees, ignore_errors=True)
    strictly = ["-q", "-W", "--keep-going", "-E"]
    wrong = build_main([*strictly, "-c", str(ROOT / ".ci/site"), "-d", str(trees), str(ROOT), str(site)])
    # Pictures with two color schemes are HTML in the pages, which Sphinx copies unchanged.
    shutil.copytree(ROOT / PICTURES, site / PICTURES)
    for found in fetched(site):
        print(f"A page would ask another host: {found}", file=sys.stderr)
        wrong = 1
    if not wrong:
        print(f"The first page is {site / 'index.html'}")
    return wrong


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
