"""Every block of the pages has a known kind and valid content.

Commands that read recordings run, those of other programs have options that exist, files are read by what reads them,
and code is compiled.  What another test runs or compares, and what nothing tries, is in data/snippets.toml with the
test or the reason.  A block of another kind fails.
"""

import ast
import json
import re
import shlex
import shutil
import textwrap
import tomllib
from dataclasses import dataclass
from functools import cache
from itertools import pairwise, takewhile
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
import yaml
from invoke import invoke
from markdown_it import MarkdownIt
from tables import read_tables

from wiretape import __version__
from wiretape.cli import subcommand, wiretape
from wiretape.config import load_config
from wiretape.recording import open_recording
from wiretape_contracts.agent_sessions.probe.probe_file import read_probe_file
from wiretape_contracts.agent_sessions.stand_in.scenario_file import read_scenario
from wiretape_inspect.report import baseline
from wiretape_proxy.proxy_options import OPTIONS
from wiretape_replay.server_options import fault_script
from wiretape_replay.stand_in import ServeOptions

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "benchmarks/README.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "guides").glob("*.md")),
]
"""All pages except those of the rules, which are generated from their vectors."""


def _by_page_and_kind(table: dict[str, dict[str, str]]) -> dict[tuple[str, str], str]:
    return {(page, kind): text for page, kinds in table.items() for kind, text in kinds.items()}


TABLES = read_tables(__file__)
ELSEWHERE, NOT_TRIED = (_by_page_and_kind(TABLES[name]) for name in ("elsewhere", "not-tried"))
READERS = {
    "docs/faults.md": fault_script,
    "docs/probe.md": read_probe_file,
    "docs/report.md": load_config,
    "docs/scenarios.md": read_scenario,
    "docs/serve.md": lambda path: ServeOptions(service=path),
    "docs/service.md": lambda path: ServeOptions(service=path),
    "docs/testing.md": fault_script,
}
"""The function that reads the TOML of a page."""
SERVING = {"proxy", "replay", "cassette", "serve", "control", "demo", "debug", "probe"}
"""Commands that run until they are stopped, need a running server, or take long: only their options are parsed."""
BUILTIN = {".", "export", "head", "kill", "mkdir", "trap"}
"""Commands of the shell and of every system."""
WHEEL = f"wiretape-{__version__}-py3-none-any.whl"
SYNOPSIS = re.compile(r"wiretape [a-z]+ ")
SPAN = re.compile(r"(?<!`)`wiretape ([a-z]+)\b([^`]*)`")
OPTION = re.compile(r"(?<![\w-])--?[a-z][a-z-]*\b(?!:)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    page: str
    line: int
    kind: str
    text: str

    def commands(self) -> list[list[str]]:
        """The words of each simple command: without what connects them, and without variables that are set for one."""
        lines = self.text.replace("\\\n", " ").splitlines()
        if self.kind == "console":
            lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
        return [words for line in lines for words in simple(line)]


def simple(line: str) -> list[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found: list[list[str]] = [[]]
    for word in lexer:
        if set(word) <= set("&|;"):
            found.append([])
        elif found[-1] or not re.match(r"[A-Z_]+=", word):
            found[-1].append(word)
    return [words for words in found if words]


def blocks(path: Path) -> list[Block]:
    page = path.relative_to(ROOT).as_posix()
    tokens = MarkdownIt("commonmark").parse(path.read_text("utf-8"))
    return [Block(page, one.map[0] + 1, one.info, one.content) for one in tokens if one.type in {"fence", "code_block"}]


@cache
def all_blocks() -> list[Block]:
    """The blocks of all pages, read when a test runs."""
    return [block for path in PAGES for block in blocks(path)]


def tried(block: Block, what: str) -> None:
    assert {(block.page, what)} & {*ELSEWHERE, *NOT_TRIED}, f"nothing tries {what} on {block.page}: say what does"


def check_shell(block: Block, _folder: Path) -> None:
    assert block.commands(), "no command"
    for program, *words in block.commands():
        check = PROGRAMS.get(program)
        assert check is not None or program in BUILTIN, f"nothing is known of {program}"
        if check is not None:
            check(block, words)


def check_wiretape(_block: Block, words: list[str]) -> None:
    name, *rest = words
    if name == "help":
        return
    assert name in wiretape.commands, f"there is no wiretape {name}"
    unknown = {word for word in rest if OPTION.fullmatch(word)} - options(name)
    assert not unknown, f"wiretape {name} has no {', '.join(sorted(unknown))}"


def options(name: str) -> set[str]:
    """The options of a command and of its subcommands."""
    command = subcommand(name)
    within = command.commands.values() if isinstance(command, click.Group) else ()
    return {"--help", "-h", *(one for each in (command, *within) for param in each.params for one in param.opts)}


def check_make(_block: Block, words: list[str]) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    variables = re.findall(r"^([A-Z]+) \?=", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    unknown = [word for word in words if word not in targets and word.partition("=")[0] not in variables]
    assert words
    assert unknown == []


def check_pip(block: Block, words: list[str]) -> None:
    """For our own package, the extras exist; other packages are test dependencies."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    others = {re.split(r"[^\w-]", one)[0] for one in extras["dev"]}
    command, *names = [word for word in words if not word.startswith("-")]
    if "wheels" in names:
        tried(block, "pip")
        names.remove("wheels")
    assert command in {"install", "wheel"}
    for name in names:
        where, extra = re.fullmatch(r"([^\[<]*)(?:\[(\w+)\])?(?:<\d+)?", name).groups()
        assert where in {".", f"./{WHEEL}", f"./dist/{WHEEL}", "wiretape", *others}
        assert extra in {None, *extras}


def check_python(block: Block, words: list[str]) -> None:
    if words[:2] != ["-m", "venv"]:
        tried(block, "pytest")


def check_mitmdump(_block: Block, words: list[str]) -> None:
    named = {word.partition("=")[0] for word in words if word.startswith("wiretape_")}
    assert named
    assert named <= {f"wiretape_{option.name}" for option in OPTIONS}


def check_ours(_block: Block, words: list[str]) -> None:
    """Paths and selected tests exist."""
    paths = [ROOT / word for word in words if "/" in word]
    assert [path for path in paths if not path.exists()] == []
    chosen = [word for before, word in pairwise(words) if before == "-k"]
    tests = [path for folder in paths for path in folder.rglob("test_*.py")]
    assert all(any(word in path.name for path in tests) for word in chosen), "no test is chosen"


def check_told(block: Block, _folder: Path) -> None:
    tried(block, "text")
    if SYNOPSIS.match(block.text):
        check_wiretape(block, [block.text.split()[1], *OPTION.findall(block.text)])


def check_toml(block: Block, folder: Path) -> None:
    if block.page not in READERS:
        tried(block, "toml")
        return
    path = folder / "shown.toml"
    path.write_text(block.text, "utf-8")
    READERS[block.page](path)


def check_json(block: Block, folder: Path) -> None:
    if "tasks" in json.loads(block.text):
        return  # tests/report/test_finding_location.py uses the problem matcher
    path = folder / "shown.json"
    path.write_text(block.text, "utf-8")
    if (block.page, "json") not in ELSEWHERE:
        assert baseline.load(path)


def check_yaml(block: Block, folder: Path) -> None:
    """YAML is a tape, its events, or a key of an exchange, unless a test has it."""
    if (block.page, "yaml") in ELSEWHERE:
        assert all(yaml.safe_load_all(block.text))
        return
    path = folder / "shown.tape"
    around = "tape: 1\n---\nrequest: GET /v1/sessions/ses_1/events/stream\n"
    text = f"events:\n{block.text}" if block.text.startswith("- ") else block.text
    path.write_text(text if re.search(r"^tape:", text, re.MULTILINE) else around + text, "utf-8")
    with open_recording(path) as recording:
        assert list(recording.observations())


def check_code(block: Block, _folder: Path) -> None:
    tried(block, "python")
    lacks_a_body = r"(\n\"\"\"\S[^\n]*\"\"\"\n)\Z"
    text = re.sub(lacks_a_body, r"\1", textwrap.dedent(block.text))
    compile(text, block.page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


PROGRAMS = {
    "wiretape": check_wiretape,
    "make": check_make,
    "pip": check_pip,
    "python": check_python,
    "python3": check_python,
    "pytest": lambda block, _: tried(block, "pytest"),
    "curl": lambda block, _: tried(block, "curl"),
    "sqlite3": lambda block, _: tried(block, "sqlite3"),
    **{name: lambda block, words, name=name: tried(block, name) for name in ("pipx", "podman", "uv", "uvx")},
    "mitmdump": check_mitmdump,
    ".ci/run": check_ours,
    ".venv/bin/python": check_ours,
}
KINDS = {
    "console": check_shell,
    "js": lambda block, _: tried(block, "js"),
    "json": check_json,
    "python": check_code,
    "sh": check_shell,
    "text": check_told,
    "toml": check_toml,
    "yaml": check_yaml,
}


@pytest.mark.parametrize("page", [path.relative_to(ROOT).as_posix() for path in PAGES])
def test_every_block_has_a_known_kind_and_is_valid(page, tmp_path):
    for block in all_blocks():
        if block.page == page:
            assert block.kind in KINDS, (
                f"{page}, line {block.line}: nothing looks at a block of the kind {block.kind!r}"
            )
            try:
                KINDS[block.kind](block, tmp_path)
            except (click.ClickException, AssertionError, ValueError, SyntaxError) as error:
                pytest.fail(f"{page}, line {block.line}: {error}")


def test_every_command_mentioned_in_text_exists():
    named = [(block, *found) for block in map(prose, PAGES) for found in SPAN.findall(block.text)]
    assert len(named) > 100
    for block, name, rest in named:
        try:
            check_wiretape(block, [name, *OPTION.findall(rest)])
        except AssertionError as error:
            pytest.fail(f"{block.page}: `wiretape {name}{rest}`: {error}")


def prose(path: Path) -> Block:
    """A page without its code blocks."""
    text = re.sub(r"^```.*?^```", "", path.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    return Block(path.relative_to(ROOT).as_posix(), 1, "", text)


def test_the_lists_of_exceptions_are_up_to_date():
    shown = {(block.page, block.kind) for block in all_blocks()}
    for block in all_blocks():
        if block.kind in {"sh", "console"}:
            shown |= {(block.page, words[0].replace("python", "pytest")) for words in block.commands()}
    assert [one for one in (*ELSEWHERE, *NOT_TRIED) if one not in shown] == []
    for (page, _), test in ELSEWHERE.items():
        assert Path(page).name in (ROOT / test).read_text("utf-8"), f"{test} does not speak of {page}"


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """A recording with findings and a session `ses_1`, in several formats, under the names that the pages use."""
    folder = tmp_path_factory.mktemp("recorded")
    tape = ["tape: 1\nstarted: 2025-01-01T00:00:00Z\n"]
    for number in range(1, 7):
        events = [f'- id: e{number}{n}\n  data: {{"sequence": {n}, "type": "run.started"}}\n' for n in (2, 1)]
        tape.append(f"request: GET /v1/sessions/ses_1/events/stream\nafter: 20\nevents:\n{''.join(events)}")
    (folder / "run.tape").write_text("---\n".join(tape), "utf-8")
    (folder / "stream.sse").write_text("data: {}\n\n", "utf-8")
    run(["import", str(folder / "run.tape"), "--output", str(folder / "run.db")])
    run(["export", str(folder / "run.db"), "--format", "har", "--output", str(folder / "devtools.har")])
    return folder


def run(arguments: list[str]) -> None:
    result = invoke(*arguments)
    assert result.exit_code in {0, 1}, f"wiretape {shlex.join(arguments)}\n{result.output}"
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception


def parse(arguments: list[str]) -> None:
    """Parse the options of a command or subcommand."""
    name, *rest = arguments
    command = subcommand(name)
    # A command keeps the names of its option `--help`, which come from the program.
    with command.make_context(name, list(rest), **wiretape.context_settings) as ctx:
        if isinstance(command, click.Group):
            inner, one, rest = command.resolve_command(ctx, [*ctx._protected_args, *ctx.args])
            one.make_context(inner, rest, parent=ctx, obj=SimpleNamespace()).close()


def prepare(arguments: list[str], recordings: Path) -> None:
    """Create the files that a command reads, and remove those that it writes."""
    for before, name in pairwise(arguments):
        path = Path(name)
        if before in {"-o", "--output", "--write-baseline"}:
            path.unlink(missing_ok=True)
        elif path.suffix == ".db" or name in {"A", "B"}:
            shutil.copy(recordings / "run.db", path)
        elif (recordings / name).is_file():
            shutil.copy(recordings / name, path)


def test_the_commands_on_the_pages_run(recordings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = [
        (block, list(takewhile(lambda word: word not in {"<", ">"}, words)))
        for block in all_blocks()
        if block.kind in {"sh", "console"} and (block.page == "README.md" or block.page.startswith("docs/"))
        for program, *words in block.commands()
        if program == "wiretape" and words[0] != "help"
    ]
    assert len(shown) > 40
    for block, arguments in shown:
        # Nothing receives spans.  What mitmproxy wrote takes mitmproxy to make; tests/formats has such files.
        if arguments[0] in SERVING or "--endpoint" in arguments or any(name.endswith(".mitm") for name in arguments):
            try:
                parse(arguments)
            except click.UsageError as error:
                pytest.fail(f"{block.page} shows wiretape {shlex.join(arguments)}: {error.format_message()}")
        else:
            prepare(arguments, recordings)
            run(arguments)
