"""The page's text, without a browser: what is in it, and what may not be."""

import re
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

import pytest

from wiretape_inspect import page
from wiretape_inspect.page import SCRIPTS, assembled

PARTS = [part for part in files(page).iterdir() if part.name.endswith((".js", ".html", ".css"))]
DARK = "@media (prefers-color-scheme: dark)"


def test_every_script_is_part_of_the_page():
    assert sorted(f"{name}.js" for name in SCRIPTS) == sorted(part.name for part in PARTS if part.name.endswith(".js"))


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_nothing_recorded_can_become_markup_or_code(part):
    text = part.read_text("utf-8")
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "DOMParser",
    ):
        assert word not in text
    assert re.search(r"""\sstyle\s*=\s*["']|\son\w+\s*=\s*["']""", text) is None


def test_the_page_names_nobody_else():
    addresses = set(re.findall(r"\w+://[\w.$]+", assembled().html))
    assert addresses <= {"http://www.w3.org", "${head.scheme}://${head.authority}"}


def test_the_policy_lets_only_the_page_s_own_style_and_script_be_used():
    html, policy = assembled().html, assembled().policy
    for name, tag in (("script", "script"), ("style", "style")):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        assert f"{name}-src 'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert f'http-equiv="Content-Security-Policy" content="{policy}"' in html


def colours(dark):
    style = (files(page) / "page.css").read_text("utf-8")
    light, after = style.split(DARK, 1)
    found = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light))
    return found | dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", after.split("}", 1)[0])) if dark else found


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_all_text_can_be_read(dark):
    found = colours(dark)
    texts = [
        "text",
        "dim",
        "accent",
        "error",
        "warning",
        "note",
        "good",
        "durable",
        "delta",
        "tool",
        "gap",
        "string",
        "number",
    ]
    for text in texts:
        for back in ("back", "sheet", "hover", "accent-back"):
            low, high = sorted(luminance(found[name]) for name in (text, back))
            assert (high + 0.05) / (low + 0.05) >= 4.5, (text, back)
