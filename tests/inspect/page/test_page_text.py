"""The source of the page, without a browser: what it must and must not contain."""

import re
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files

import pytest
from for_each import for_each

from wiretape_inspect import page
from wiretape_inspect.page import bundle_modules, exported_page, served_page

PARTS = [part for part in files(page).iterdir() if part.name.endswith((".js", ".html", ".css"))]
EXPORT = re.compile(r"^export (?:async )?(?:function|class|const) (\w+)", re.MULTILINE)
DARK = "@media (prefers-color-scheme: dark)"


def test_bundle_contains_every_module_without_imports_and_exports():
    bundled = re.findall(r"^const \$(\w+) = \(\(\) => \{$", bundle_modules(), re.MULTILINE)
    assert sorted(f"{name}.js" for name in bundled) == sorted(part.name for part in PARTS if part.name.endswith(".js"))
    assert bundled[-1] == "main"
    assert re.search(r"^\s*(?:import|export)\b", bundle_modules(), re.MULTILINE) is None


@for_each("part", [part for part in PARTS if part.name.endswith(".js")], ids=lambda part: part.name)
def test_imported_names_are_exported_and_used(part):
    text = part.read_text("utf-8")
    for names, module in re.findall(r'^import \{([^}]*)\} from "\./(\w+)\.js";$', text, re.MULTILINE):
        exported = EXPORT.findall(source(f"{module}.js"))
        for name in filter(None, map(str.strip, names.split(","))):
            assert name in exported
            assert len(re.findall(rf"\b{name}\b", text)) > 1


def source(name):
    return (files(page) / name).read_text("utf-8")


@for_each("part", PARTS, ids=lambda part: part.name)
def test_module_never_turns_text_into_markup_or_code(part):
    text = part.read_text("utf-8")
    forbidden = "innerHTML,outerHTML,insertAdjacentHTML,document.write,eval(,new Function,DOMParser"
    for word in forbidden.split(","):
        assert word not in text
    assert re.search(r"""\sstyle\s*=\s*["']|\son\w+\s*=\s*["']""", text) is None


def test_page_refers_to_no_other_site():
    addresses = set(re.findall(r"\w+://[\w.$]+", exported_page().html))
    assert addresses <= {"http://www.w3.org", "${head.scheme}://${head.authority}"}


def test_policy_of_the_exported_page_allows_only_its_own_style_and_script():
    html, policy = exported_page().html, exported_page().policy
    for name, tag in (("script", "script"), ("style", "style")):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
        assert f"{name}-src 'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" in policy


def test_policy_of_the_served_page_allows_only_files_of_its_server():
    assert "script-src 'self'; style-src 'self';" in served_page().policy
    assert "<script>" not in served_page().html


@pytest.mark.parametrize("made", [served_page, exported_page])
def test_policy_forbids_everything_else(made):
    assert made().policy.startswith("default-src 'none'; ")
    assert "unsafe" not in made().policy
    assert f'http-equiv="Content-Security-Policy" content="{made().policy}"' in made().html


def colours(dark):
    style = source("page.css")
    light, after = style.split(DARK, 1)
    found = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", light))
    return found | dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", after.split("}", 1)[0])) if dark else found


def luminance(colour):
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_has_enough_contrast(dark):
    found = colours(dark)
    texts = "text dim accent error warning note good tool value"
    pairs = [(text, back) for text in texts.split() for back in ("back", "sheet", "hover", "accent-back")]
    pairs += [(text, back) for text in ("text", "dim") for back in ("faint", "line")]
    for pair in [*pairs, ("text", "tool-back"), ("sheet", "error"), ("error", "error-back")]:
        low, high = sorted(luminance(found[name]) for name in pair)
        assert (high + 0.05) / (low + 0.05) >= 4.5, pair
