"""Follow the README with an installed wiretape, in an empty folder.

    python .ci/smoke.py README.md COMMAND...

COMMAND is how to run wiretape: a path, or `uvx --from … wiretape`.  Needs no packages, and no curl.
"""

import json
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Timer

_TIMEOUT_S = 300
"""A guard against hanging; a busy machine is slow."""
_KEY = "wiretape-key"
_URL = re.compile(r"http://127\.0\.0\.1:\d+\S*?(?=[,;\s]|$)")


@contextmanager
def running(command: list[str], folder: Path) -> Iterator[str]:
    """Run a server; yield the first URL that it prints; end it with SIGTERM."""
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        timer = Timer(_TIMEOUT_S, process.kill)
        timer.start()
        try:
            lines = []
            for line in process.stderr or ():
                lines.append(line)
                if found := _URL.search(line):
                    break
            else:
                sys.exit(f"{shlex.join(command)} did not start:\n{''.join(lines)}")
            yield found.group()
            process.send_signal(signal.SIGTERM)
            rest = process.communicate()[1]
            if process.returncode:
                sys.exit(f"{shlex.join(command)} ended with status {process.returncode}:\n{rest}")
        finally:
            timer.cancel()
            process.kill()


def follow_run(url: str) -> list[str]:
    """Create a session and a run, and return the types of its events."""
    session = f"/v1/sessions/{_request(f'{url}/v1/sessions', method='POST')['id']}"
    _request(f"{url}{session}/runs", method="POST")
    types: list[str] = []
    with urllib.request.urlopen(_authorized(f"{url}{session}/events/stream"), timeout=_TIMEOUT_S) as stream:
        for line in stream:
            if line.startswith(b"data: "):
                types.append(json.loads(line.removeprefix(b"data: "))["type"])
            if types[-1:] == ["run.completed"]:
                return types
    sys.exit(f"The stream ended after {types}.")


def _request(url: str, method: str) -> dict[str, str]:
    with urllib.request.urlopen(_authorized(url, method), timeout=_TIMEOUT_S) as response:
        body: dict[str, str] = json.load(response)
    return body


def _authorized(url: str, method: str = "GET") -> urllib.request.Request:
    return urllib.request.Request(url, method=method, headers={"Authorization": f"Bearer {_KEY}"})


def commands_of(page: str) -> Iterator[list[str]]:
    """Yield the arguments of each wiretape command in the shell blocks of a page."""
    for block in re.findall(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            program, *arguments = shlex.split(line, comments=True) or [""]
            if program == "wiretape":
                yield arguments


def main(page: Path, command: list[str]) -> None:
    """Run the commands of a page in their order; a client without curl takes the place of curl."""
    done, servers = 0, ExitStack()
    service = ""
    with tempfile.TemporaryDirectory() as made, servers:
        for arguments in commands_of(page.read_text("utf-8")):
            words = [*command, *(word for word in arguments if word != "--open")]
            match arguments[0]:
                case "serve":
                    service = servers.enter_context(running([*words, "--listen", "127.0.0.1:0"], Path(made)))
                case "proxy":
                    words[len(command) + 1] = service
                    with running([*words, "--listen", "127.0.0.1:0", "--plain"], Path(made)) as proxy:
                        follow_run(proxy)
                case "replay" | "debug":
                    with running([*words, "--listen", "127.0.0.1:0"], Path(made)) as url:
                        _open_page(url)
                case _:
                    _run(words, Path(made))
            done += 1
    print(f"{done} commands of {page.name} work")


def _open_page(url: str) -> None:
    """Read the page of the debugger; a replay has none."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
    if "?" not in url:
        return
    with browser.open(url, timeout=_TIMEOUT_S) as response:
        if not re.search(rb"<title>.+</title>", response.read()):
            sys.exit(f"{url} has no title")


def _run(words: list[str], folder: Path) -> None:
    """Run a command to its end.  Status 1 stands for findings and differences."""
    process = subprocess.run(words, cwd=folder, capture_output=True, timeout=_TIMEOUT_S, check=False)
    if process.returncode not in {0, 1} or not process.stdout + process.stderr:
        sys.exit(f"{shlex.join(words)} ended with status {process.returncode}:\n{process.stderr.decode()[-2000:]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
