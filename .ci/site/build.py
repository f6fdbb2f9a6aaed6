"""Build the site of the pages, strictly: every warning fails, and so does a page that fetches from elsewhere.

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
"""What makes a browser ask another host; a link that a reader may follow is none of it."""


def fetched(site: Path) -> list[str]:
    """What pages and styles in the folder `site` fetch from elsewhere, each with the file that does."""
    files = [path for path in sorted(site.rglob("*")) if path.suffix in {".html", ".css"}]
    return [f"{path.name}: {found}" for path in files for found in _FETCHED.findall(path.read_text("utf-8"))]


def main(site: Path) -> int:
    """Build into the folder `site`, whose old contents go.  Returns 0 when all is well."""
    shutil.rmtree(site, ignore_errors=True)
    trees = site.with_name(f"{site.name}-trees")
    shutil.rmtree(trees, ignore_errors=True)
    strictly = ["-q", "-W", "--keep-going", "-E"]
    wrong = build_main([*strictly, "-c", str(ROOT / ".ci/site"), "-d", str(trees), str(ROOT), str(site)])
    # Pictures with two colour schemes are HTML in the pages, which Sphinx passes on as it stands.
    shutil.copytree(ROOT / PICTURES, site / PICTURES)
    for found in fetched(site):
        print(f"A page would ask another host: {found}", file=sys.stderr)
        wrong = 1
    if not wrong:
        print(f"The first page is {site / 'index.html'}")
    return wrong


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
