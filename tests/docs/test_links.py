"""The links of the pages work as on a git host: relative, to existing files and headings.

`make docs` builds the site and is as strict; this is told in a second.
"""

import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote

from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
INDEX = ROOT / "docs" / "README.md"
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "benchmarks" / "README.md"]
)
MARKDOWN = MarkdownIt("commonmark").enable("table")
PICTURE = re.compile(r'<(?:img|source)\b[^>]*?\b(?:src|srcset)="([^" ]+)"')
"""HTML for a picture for each colour scheme."""
RULE_PAGE = re.compile(r"docs/(rules|contracts/[a-z-]+)/(?!README)")
ELSEWHERE = re.compile(r"[a-z]+:", re.IGNORECASE)


@cache
def tokens(path: Path):
    return MARKDOWN.parse(path.read_text("utf-8"))


def links(path: Path) -> list[str]:
    inner = [child for token in tokens(path) for child in token.children or ()]
    found = [child.attrs.get("href") or child.attrs.get("src") for child in inner]
    found += [picture for token in tokens(path) for picture in PICTURE.findall(token.content)]
    return [link for link in found if link and not ELSEWHERE.match(link)]


@cache
def anchors(path: Path) -> set[str]:
    """The anchors of headings as git hosts make them: lower case, no punctuation, hyphens, numbered if repeated."""
    seen: dict[str, int] = {}
    for before, token in zip(tokens(path), tokens(path)[1:], strict=False):
        if before.type == "heading_open":
            text = "".join(child.content for child in token.children)
            slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
            seen[slug] = seen.get(slug, -1) + 1
            if seen[slug]:
                seen[f"{slug}-{seen[slug]}"] = 0
    return set(seen)


def astray(page: str) -> list[str]:
    """The broken links of a page."""
    path, wrong = ROOT / page, []
    for link in links(path):
        name, _, anchor = unquote(link).partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.is_relative_to(ROOT):
            wrong.append(f"{page} links to {link}, which is outside of the repository")
        elif not target.exists():
            wrong.append(f"{page} links to {link}, and there is no such file")
        elif anchor and anchor not in anchors(target):
            wrong.append(f"{page} links to {link}, and there is no such heading")
    return wrong


def test_every_link_has_a_target():
    assert sum(len(links(ROOT / page)) for page in PAGES) > 100
    assert [problem for page in PAGES for problem in astray(page)] == []


def test_every_page_mentioned_in_text_exists():
    named = re.compile(r"`((?:docs|benchmarks)/[\w./-]+\.md)`")
    found = {(page, name) for page in PAGES for name in named.findall((ROOT / page).read_text("utf-8"))}
    assert [(page, name) for page, name in found if not (ROOT / name).exists()] == []


def test_the_index_links_to_every_page():
    """The site uses its order."""
    linked = {(INDEX.parent / link.partition("#")[0]).resolve() for link in links(INDEX)}
    missing = [page for page in PAGES if (ROOT / page) not in linked and not RULE_PAGE.match(page)]
    assert missing == ["docs/README.md"], "docs/README.md has to link to every page of the documentation"


def test_every_page_has_one_title():
    """The site lists a page under each of its top-level headings."""
    titles = {page: [token.tag for token in tokens(ROOT / page)].count("h1") / 2 for page in PAGES}
    assert {page: count for page, count in titles.items() if count != 1} == {}


def test_every_picture_is_small_and_used():
    pictures = sorted((ROOT / "docs" / "images").iterdir())
    shown = {(ROOT / page).parent.joinpath(link).resolve() for page in PAGES for link in links(ROOT / page)}

    assert {path.suffix for path in pictures} == {".png", ".svg"}
    assert [path.name for path in pictures if path not in shown] == []
    assert [path.name for path in pictures if path.stat().st_size > 150_000] == []


def test_pictures_load_nothing_from_elsewhere():
    """By default, rich refers to fonts of a content delivery network."""
    address = re.compile(r"https?:[^\"')\s]*|@import|@font-face|<script|<image", re.IGNORECASE)
    text = re.compile(r"<text[^>]*>[^<]*</text>")  # may contain addresses that are only shown
    pictures = [path.read_text("utf-8") for path in (ROOT / "docs" / "images").glob("*.svg")]
    named = {found for picture in pictures for found in address.findall(text.sub("", picture))}
    assert named == {"http://www.w3.org/2000/svg"}


def test_every_guarantee_of_security_md_names_tests_that_exist():
    text = (ROOT / "SECURITY.md").read_text("utf-8")
    tables = [table.partition("\n\n")[0] for table in text.split("| Guarantee | Test |\n|---|---|\n")[1:]]
    rows = [row for table in tables for row in table.splitlines()]
    assert len(rows) > 10
    for row in rows:
        named = re.findall(r"`(tests/[\w/.]+)::(\w+)`", row)
        assert named, row
        for path, name in named:
            assert re.search(rf"^(?:async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE), f"{path}::{name}"
