"""The page of the debugger: its JavaScript modules bundled into one script, its style and its HTML.

Script and style are served beside the document or contained in it.  `wiretape_inspect.timeline_json` makes the JSON
that the page reads.  `main.js` starts it, and `app.js` puts its parts together.  `api_client.js` asks the API of the
debugger or, in an exported file, the answers that this contains (`recorded_answers.js`).

The bundler supports the imports and exports that the page uses: `import { a, b } from "./module.js";` at the top of a
module, and `export` before a function, a class or a constant.  A module becomes a function that returns its exports.
"""

import re
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from graphlib import TopologicalSorter
from hashlib import sha256
from importlib.resources import files

CONTENT_TYPES = {".js": "text/javascript", ".css": "text/css"}
_MAIN = "main"
_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function |class |const )", re.MULTILINE)
_EXPORTED = re.compile(r"^export (?:async )?(?:function|class|const) (\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Page:
    """The HTML of the page; an exported file has its data between the two parts."""

    before: str
    after: str
    policy: str
    """The Content-Security-Policy, which the HTML also contains for a page that is opened as a file."""

    @property
    def html(self) -> str:
        """The page without data, which reads them from its server."""
        return self.before + self.after


@cache
def served_page() -> Page:
    """Return the page that loads its style, its script and meanwhile the first data from its server."""
    data = '<link rel="preload" href="/api/recording" as="fetch" crossorigin>'
    style = f'{data}\n<link rel="stylesheet" href="/page/page.css">'
    script = '<script src="/page/page.js"></script>'
    return _page(style, script, script_source="'self'", style_source="'self'")


@cache
def exported_page() -> Page:
    """Return the page that contains its style and its modules, and makes no requests."""
    style, script = _read("page.css"), bundle_modules()
    return _page(
        f"<style>{style}</style>", f"<script>{script}</script>", script_source=_hash(script), style_source=_hash(style)
    )


def read_page_file(name: str) -> bytes | None:
    """Return the script or the style of the page; None if there is no such file."""
    if name == "page.js":
        return bundle_modules().encode()
    return _read(name).encode() if name == "page.css" else None


def _page(style: str, script: str, *, script_source: str, style_source: str) -> Page:
    policy = (
        f"default-src 'none'; script-src {script_source}; style-src {style_source}; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'"
    )
    html = _read("page.html")
    parts = {"policy": policy, "style": style, "script": script}
    for name, text in parts.items():
        html = html.replace(f"{{{{{name}}}}}", text)
    before, after = html.split("{{data}}")
    return Page(before, after, policy)


@cache
def bundle_modules() -> str:
    """Return all modules as one script."""
    modules = "".join(_as_function(name) for name in _import_order())
    return f'(() => {{\n"use strict";\n{modules}}})();\n'


def _import_order() -> Iterable[str]:
    """Return all modules, each after the modules that it imports.  Raises CycleError."""
    imports: dict[str, list[str]] = {}
    waiting = [_MAIN]
    while waiting:
        name = waiting.pop()
        if name not in imports:
            imports[name] = [imported for _, imported in _IMPORT.findall(_read(f"{name}.js"))]
            waiting += imports[name]
    return TopologicalSorter(imports).static_order()


def _as_function(name: str) -> str:
    """Return a module as a constant that holds its exports."""
    source = _read(f"{name}.js")
    exports = ", ".join(_EXPORTED.findall(source))
    body = _IMPORT.sub(lambda found: f"const {{{found[1]}}} = ${found[2]};\n", source)
    body = _EXPORT.sub("", body)
    return f"const ${name} = (() => {{\n{body}return {{ {exports} }};\n}})();\n"


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _read(name: str) -> str:
    return (files(__package__) / name).read_text("utf-8")
