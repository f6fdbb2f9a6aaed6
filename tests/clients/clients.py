"""Clients that others wrote, each followed through a stream that breaks: what it was handed in the end.

`tests/clients` holds no package: tests and `table.py` load this file by its path.
"""

import json
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from wiretape.contract import EVENT_TYPES

HERE = Path(__file__).parent
DRIVERS = HERE / "drivers"
KEY = "sk_test_clients"
CHROMIUM_FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update")


@dataclass(frozen=True)
class Told:
    """What a client is told to do."""

    url: str
    last: str
    """The id of the event after which all is done."""

    def json(self) -> str:
        return json.dumps({"url": self.url, "key": KEY, "types": list(EVENT_TYPES), "last": self.last})


@dataclass(frozen=True)
class Outcome:
    """What a client made of a stream."""

    lost: int
    """Durable events that it was never handed."""
    repeated: int
    """Durable events that it was handed again."""
    empty: int
    """Events without data that it was handed, of which the stream has none."""
    gave_up: str | None
    """Why it went no further, if it did not come to the end."""

    @classmethod
    def of(cls, heard: Sequence[dict[str, Any]], ids: Sequence[str]) -> "Outcome":
        durable = Counter(line["id"] for line in heard if line.get("data") and _is_durable(line))
        gave_up = next((line["gave_up"] for line in heard if "gave_up" in line), None)
        return cls(
            lost=sum(1 for identity in ids if identity not in durable),
            repeated=sum(count - 1 for count in durable.values()),
            empty=sum(1 for line in heard if line.get("data") == ""),
            gave_up=gave_up,
        )


def _is_durable(line: dict[str, Any]) -> bool:
    """Whether the event had an id of its own: clients show the one before for those that had none."""
    return "id" in json.loads(line["data"])


@dataclass(frozen=True)
class Client:
    """A client, and how it is started."""

    name: str
    command: tuple[str, ...]
    missing: Callable[[], str | None]
    """Why it cannot be had here, or None."""

    def follow(self, told: Told, patience_s: float = 20) -> list[dict[str, Any]]:
        """Let it follow a stream to its end; what it was handed.  A client that never ends has given up."""
        with subprocess.Popen(
            [*self.command, told.json()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=HERE, text=True
        ) as process:
            try:
                said, trouble = process.communicate(timeout=patience_s)
            except subprocess.TimeoutExpired:
                process.kill()
                said, trouble = process.communicate()
                return [*_lines(said), {"gave_up": f"nothing more in {patience_s:g} s"}]
        if process.returncode:
            return [*_lines(said), {"gave_up": trouble.strip().splitlines()[-1] if trouble.strip() else "it crashed"}]
        return _lines(said)


def _lines(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines()]


def _no_program(*names: str) -> Callable[[], str | None]:
    return lambda: next((f"{name} is not installed" for name in names if shutil.which(name) is None), None)


def _no_package(name: str) -> Callable[[], str | None]:
    def missing() -> str | None:
        if (why := _no_program("node")()) is not None:
            return why
        return None if (HERE / "node_modules" / name).is_dir() else f"npm package {name} is not installed: make clients"

    return missing


CLIENTS = (
    Client("curl", (sys.executable, str(DRIVERS / "curl.py")), _no_program("curl")),
    Client("httpx with httpx-sse", (sys.executable, str(DRIVERS / "httpx_sse.py")), lambda: None),
    Client("npm eventsource", ("node", str(DRIVERS / "eventsource.mjs")), _no_package("eventsource")),
    Client(
        "@microsoft/fetch-event-source",
        ("node", str(DRIVERS / "fetch-event-source.mjs")),
        _no_package("@microsoft/fetch-event-source"),
    ),
)


def no_chromium() -> str | None:
    """Why Chromium cannot be had here, or None."""
    return None if shutil.which("chromium") else "chromium is not installed"


@contextmanager
def chromium() -> Iterator[Callable[[Told], list[dict[str, Any]]]]:
    """Chromium's own EventSource: call with what it is told, as often as wanted."""
    from playwright.sync_api import TimeoutError as PatienceError  # noqa: PLC0415 - loads much
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=list(CHROMIUM_FLAGS))

        def follow(told: Told) -> list[dict[str, Any]]:
            page = browser.new_page()
            page.set_content((DRIVERS / "chromium.html").read_text("utf-8"))
            page.evaluate("told => listen(told)", json.loads(told.json()))
            try:
                done = "last => heard.some(line => line.id === last || line.gave_up)"
                page.wait_for_function(done, arg=told.last, timeout=20_000)
            except PatienceError:
                page.evaluate("heard.push({ gave_up: 'nothing more in 20 s' })")
            heard: list[dict[str, Any]] = page.evaluate("heard")
            page.close()
            return heard

        yield follow
        browser.close()
