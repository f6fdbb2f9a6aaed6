"""Configuration of Sphinx for `make docs`: the Markdown files and their links are used unchanged.

The order of the pages is that of the links in docs/README.md, under its headings: a page that is not linked there
is told by Sphinx, as is every link to a page or a heading that is not there.  Pages fetch nothing from elsewhere.
"""

import re
from pathlib import Path

from sphinx.application import Sphinx

project = "wiretape"
author = "The wiretape authors"
extensions = ["myst_parser"]
root_doc = "docs/README"
include_patterns = ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "benchmarks/README.md", "docs/**.md"]
exclude_patterns = [".*", "build", "**/node_modules"]

# The same anchors of headings as on git hosts.
myst_heading_anchors = 4
myst_links_external_new_tab = False

html_theme = "alabaster"
html_theme_options = {
    "description": "Record, judge and replay event streams.",
    "show_powered_by": False,
    # Wide enough for a terminal of a hundred columns.
    "page_width": "1180px",
    "body_max_width": "900px",
    "code_font_size": "0.8em",
}
html_static_path = ["static"]
html_sidebars = {"**": ["about.html", "navigation.html", "searchbox.html"]}
html_additional_pages = {"index": "to_the_first_page.html"}
templates_path = ["."]
html_title = "wiretape"
html_show_copyright = False
html_show_sphinx = False
html_show_sourcelink = False
html_copy_source = False
html_use_index = False
highlight_language = "none"
# Options begin with two hyphens, which must not become a dash.
smartquotes = False

_PART = re.compile(r"^## (.+)$", re.MULTILINE)
_PAGE = re.compile(r"\]\((?!\w+:)([^)#]+\.md)\)")


def table_of_contents(index: str, folder: str) -> str:
    """Return the links of a page as hidden tables of contents, one for each heading."""
    trees = []
    _, *parts = _PART.split(index)
    for title, text in zip(parts[::2], parts[1::2], strict=True):
        pages = dict.fromkeys(_PAGE.findall(text))
        names = [_from_the_top(f"{folder}/{page}") for page in pages]
        trees.append("\n".join(["", "```{toctree}", ":hidden:", f":caption: {title}", "", *names, "```", ""]))
    return "\n".join(trees)


def _from_the_top(page: str) -> str:
    """Return Sphinx's name of a page: `/README` for `docs/../README.md`."""
    top = Path.cwd()
    return "/" + Path(top, page).resolve().relative_to(top.resolve()).with_suffix("").as_posix()


def _add_the_tree(_app: Sphinx, name: str, source: list[str]) -> None:
    if name == root_doc:
        source[0] += table_of_contents(source[0], "docs")
    if name.startswith(("docs/rules/", "docs/contracts/")) and name.endswith("/README"):
        source[0] += "\n```{toctree}\n:hidden:\n:glob:\n\n*\n```\n"


def setup(app: Sphinx) -> None:
    """Called by Sphinx."""
    app.connect("source-read", _add_the_tree)
