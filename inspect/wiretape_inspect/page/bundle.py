"""Makes one HTML text of the page's parts, and the policy under which a browser may show it."""

from base64 import b64encode
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files

import orjson

from wiretape.contract import CURSOR_HEADER, DELTA_TYPES, MESSAGE_DELTA, REASONING_DELTA, TOOL_TYPES

SCRIPTS = (
    "words",
    "making",
    "json",
    "filter_grammar",
    "filter_match",
    "delta_runs",
    "source",
    "embedded",
    "view",
    "list",
    "model",
    "rows",
    "strip",
    "header",
    "payload",
    "bytes",
    "knowledge",
    "exchange",
    "detail",
    "findings",
    "report",
    "verdicts",
    "resume",
    "dialogs",
    "playhead",
    "live",
    "keys",
    "moves",
    "told",
    "reading",
    "main",
)
"""The scripts in the order in which they are joined: what is used while they are read stands before its use."""
_HERE = "{{%s}}"
_CONTRACT = {
    "cursorHeader": CURSOR_HEADER,
    "deltas": sorted(DELTA_TYPES),
    "textDelta": MESSAGE_DELTA,
    "reasoningDelta": REASONING_DELTA,
    "toolEnded": TOOL_TYPES[2:],
}
"""The facts of the specification that the scripts know."""


@dataclass(frozen=True, slots=True)
class Page:
    """The page, in two pieces: between them an exported file puts its data."""

    before: str
    after: str
    policy: str
    """The Content-Security-Policy: also in the page itself, for one opened as a file."""

    @property
    def html(self) -> str:
        """The page without data, which asks the server that it came from."""
        return self.before + self.after


@cache
def assembled() -> Page:
    """The page, put together once."""
    style, script = _read("page.css"), _script()
    policy = (
        f"default-src 'none'; script-src '{_hash(script)}'; style-src '{_hash(style)}'; img-src data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'"
    )
    html = _read("page.html")
    for name, text in (("policy", policy), ("style", style), ("script", script)):
        html = html.replace(_HERE % name, text)
    before, after = html.split(_HERE % "data")
    return Page(before, after, policy)


def _script() -> str:
    """All scripts in one function, so that nothing of them is seen from outside."""
    parts = "\n".join(_read(f"{name}.js") for name in SCRIPTS)
    return f'(() => {{\n"use strict";\nconst CONTRACT = {orjson.dumps(_CONTRACT).decode()};\n{parts}}})();\n'


def _hash(text: str) -> str:
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _read(name: str) -> str:
    return (files(__package__) / name).read_text("utf-8")
