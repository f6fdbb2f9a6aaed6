"""Regenerate the pictures in docs/images from a demo: its output, its recording in a terminal, and the debugger's page.

python .ci/screenshots.py docs/images

Looks different from one run to the next by its times only: the ids of a demo are always the same.
"""

import asyncio
import os
import pty
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from io import StringIO
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from playwright.async_api import Browser, ViewportSize, async_playwright, expect
from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from wiretape_inspect.debugger.debugger_server import Debugger, serve_debugger

_ROOT = Path(__file__).resolve().parent.parent
RECORDING = "run.db"
SIZE = 150_000
"""Maximum size of a picture in bytes."""
SCREEN: ViewportSize = {"width": 1100, "height": 680}
_VIEWS = {
    "debugger": ("#x=2&e=21&tab=state", "Last-Event-ID: live_7"),
    "findings": ("#x=2&findings=1", "Omit the"),
    "comparison": ("#x=5&e=2&resume=2", "until eight this evening"),
}
"""Locations on the page, each with a text that it shows.

The debugger shows the delta with an id, and the cursor that a client gets from it.
"""
_TERMINALS = {
    "show": (112, ("show", RECORDING, "--exchange", "2")),
    "report": (120, ("report", RECORDING, "--select", "DUR,SEQ001")),
}
"""Columns of the terminal, and the arguments of `wiretape`."""
_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-lcd-text", "--disable-background-networking")
_FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, 'Liberation Mono', monospace"
# rich's template without its title and its remote fonts.
_SVG = f"""<svg viewBox="0 0 {{width}} {{height}}" xmlns="http://www.w3.org/2000/svg">
<style>
.{{unique_id}}-matrix {{{{ font: {{char_height}}px {_FONT}; line-height: {{line_height}}px; white-space: pre; }}}}
{{styles}}
</style>
<defs>
<clipPath id="{{unique_id}}-clip-terminal"><rect width="{{terminal_width}}" height="{{terminal_height}}" /></clipPath>
{{lines}}
</defs>
{{chrome}}
<g transform="translate({{terminal_x}}, {{terminal_y}})" clip-path="url(#{{unique_id}}-clip-terminal)">
{{backgrounds}}
<g class="{{unique_id}}-matrix">{{matrix}}</g>
</g>
</svg>
"""
# The cast: a terminal of so many rows, which stops at each step of the demo.
_CAST_COLUMNS, _CAST_ROWS = 116, 32
_LINE_HEIGHT = 24.4
_STOP_S, _LINE_S = 3.0, 0.16
_STEP = re.compile(r"(\[\d/\d\]|Done in) ")
_SHOWN_STEP = 4
"""The step that programs show that do not move pictures: the timeline, with the findings."""
_CAST = f"""<svg viewBox="0 0 {{width}} {_CAST_ROWS * _LINE_HEIGHT + 32:.1f}" xmlns="http://www.w3.org/2000/svg">
<style>
.{{unique_id}}-matrix {{{{ font: {{char_height}}px {_FONT}; white-space: pre; }}}}
{{styles}}
MOVES
</style>
<rect width="100%" height="100%" rx="8" fill="#292929"/>
<svg x="{{terminal_x}}" y="16" width="{{terminal_width}}" height="{_CAST_ROWS * _LINE_HEIGHT:.1f}">
<g class="moving">
{{backgrounds}}
<g class="{{unique_id}}-matrix">{{matrix}}</g>
</g>
</svg>
</svg>
"""


def terminal(command: list[str], folder: Path, columns: int) -> str:
    """Return the colored terminal output of a command that runs in `folder`."""
    ours, theirs = pty.openpty()
    # Enough rows, so that no pager starts.
    size = {"COLUMNS": str(columns), "LINES": "500", "TERM": "xterm-256color", "PAGER": "cat"}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **size},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    with os.fdopen(ours, "rb", buffering=0) as screen:
        written = b"".join(_until_closed(screen.fileno()))
    process.wait()
    return written.decode().replace("\r\n", "\n")


def _until_closed(descriptor: int) -> Iterator[bytes]:
    """Read a terminal; Linux reports the end of its output as an error."""
    while True:
        try:
            data = os.read(descriptor, 65536)
        except OSError:
            return
        if not data:
            return
        yield data


def drawn(typed: str, written: str, columns: int) -> str:
    """Return a command and its output as an SVG without remote fonts."""
    console = _console(columns)
    console.print(Text.assemble(("$ ", "bold green"), (typed, "bold")))
    console.print(Text.from_ansi(written.rstrip("\n")), highlight=False)
    svg = console.export_svg(title="", theme=SVG_EXPORT_THEME, code_format=_SVG, unique_id="terminal")
    return re.sub(r"[ \t]+\n", "\n", svg)


def _console(columns: int) -> Console:
    return Console(record=True, width=columns, file=StringIO(), force_terminal=True, color_system="truecolor")


def cast(typed: str, written: str) -> str:
    """Return the output of a command as an SVG that scrolls through it, from step to step."""
    console = _console(_CAST_COLUMNS)
    lines = Text.from_ansi(f"$ {typed}\n\n{written.rstrip()}").wrap(console, _CAST_COLUMNS)
    steps = [number for number, line in enumerate(lines) if _STEP.match(line.plain)]
    last = len(lines) - _CAST_ROWS
    tops = [0, *(min(step, last) for step in steps), last]
    times = [0.0]
    for before, after in pairwise(tops):
        times += [times[-1] + _STOP_S, times[-1] + _STOP_S + (after - before) * _LINE_S]
    duration = times[-1] + 2 * _STOP_S
    stops = zip(times, sorted([*tops, *tops[:-1]]), strict=True)
    moves = [f"{100 * time / duration:.2f}% {{ {_move(top)} }}" for time, top in stops]
    style = (
        f".moving {{ {_move(steps[_SHOWN_STEP - 1])} }}\n@media (prefers-reduced-motion: no-preference) {{\n"
        f".moving {{ animation: moving {duration:.0f}s linear infinite; }} }}\n"
        f"@keyframes moving {{ {' '.join(moves)} 100% {{ {_move(last)} }} }}"
    )
    console.print(*lines, sep="\n", highlight=False)
    svg = console.export_svg(title="", theme=SVG_EXPORT_THEME, code_format=_CAST, unique_id="terminal")
    return re.sub(r' clip-path="[^"]*"|<text[^>]*>\n</text>', "", svg).replace("MOVES", style)


def _move(top: int) -> str:
    return f"transform: translateY({-top * _LINE_HEIGHT:.1f}px);"


async def page(debugger: Debugger, browser: Browser, view: str, scheme: Literal["light", "dark"] = "light") -> bytes:
    """Return a view of the debugger's page in a color scheme as a PNG."""
    location, text = _VIEWS[view]
    context = await browser.new_context(viewport=SCREEN, color_scheme=scheme, reduced_motion="reduce")
    try:
        shown = await context.new_page()
        await shown.goto(debugger.address + location)
        await expect(shown.locator("#panel")).to_contain_text(text)
        return await shown.screenshot()
    finally:
        await context.close()


async def pages(recording: Path, chromium: str, folder: Path) -> None:
    """Write the page in both color schemes to a folder."""
    async with serve_debugger(recording) as debugger, async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium, args=list(_FLAGS))
        keep(folder / "debugger-light.png", await page(debugger, browser, "debugger"))
        keep(folder / "debugger-dark.png", await page(debugger, browser, "debugger", "dark"))
        for view in ("findings", "comparison"):
            keep(folder / f"{view}.png", await page(debugger, browser, view))
        await browser.close()


def keep(path: Path, picture: bytes) -> None:
    """Write a picture.  Exits if it is too large for the repository."""
    if len(picture) > SIZE:
        sys.exit(f"{path.name} would have {len(picture):,} bytes, and may have {SIZE:,}.")
    path.write_bytes(picture)
    print(f"{path} ({len(picture):,} bytes)")


def main(folder: Path) -> None:
    """Regenerate all pictures."""
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("The pictures of the page need chromium: install it first.")
    folder.mkdir(parents=True, exist_ok=True)
    wiretape = [sys.executable, "-m", "wiretape"]
    with TemporaryDirectory() as made:
        written = terminal([*wiretape, "demo"], Path(made), _CAST_COLUMNS)
        keep(folder / "demo.svg", cast("wiretape demo", written.replace(f"{_ROOT}/", "")).encode())
        Path(made, "wiretape-demo.db").rename(Path(made, RECORDING))
        for name, (columns, arguments) in _TERMINALS.items():
            written = terminal([*wiretape, *arguments], Path(made), columns)
            keep(folder / f"{name}.svg", drawn(" ".join(["wiretape", *arguments]), written, columns).encode())
        asyncio.run(pages(Path(made, RECORDING), chromium, folder))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
