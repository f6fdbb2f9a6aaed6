"""Recordings made from traffic that a test describes as vectors do."""

import os
import pty
import subprocess
import tomllib
from dataclasses import replace

import pytest
from click.testing import CliRunner
from wiretape_process import WiretapeProcess

from wiretape.addresses import join_upstreams
from wiretape.cli import wiretape
from wiretape.observations import BytesArrived, RequestStarted, last_time_ns
from wiretape.recording import Writer
from wiretape.rules.vectors import observations_of, vectors

HOSTILE = '''
[[exchange]]
request = "GET /v1/sessions/\\u001b]0;x\\u0007/events/stream?x=]]></script>%0A::error::"
response_headers = ["Content-Type: text/event-stream", "Content-Encoding: \\u001b[31m"]
body = "data: x\\n\\n"

[[exchange]]
request = "GET /v1/sessions/s/events/stream"
latin1 = true
body = """
event: \\u001b[31m</script>]]>\\u0000
id: \\u001b[2J`@octocat` <img src=x onerror=alert(1)>
\\u001b[1m</pre><script>: x%0A%25
data: {"id":"\\\\ud800\\\\u001b]]><b>","sequence":99999999999999999999999,"type":"\\\\u202e"}

data: \\u00ff\\u001b[0m\\u0000

"""

[[exchange]]
request = "GET /v1/sessions/\\u001b[1A|#1"
status = 500
response_headers = ["Content-Type: \\u001b[1A"]
body = "{\\"error\\":{\\"code\\":\\"\\\\u001b[1A]]>%0A::stop-commands::x\\"}}"
'''
"""What could turn a terminal, XML, HTML, Markdown or a workflow command into something else."""


@pytest.fixture(scope="session")
def traffic():
    """The observations of traffic in the form of `wiretape.rules.vectors`."""
    return lambda text: observations_of(tomllib.loads(text))


@pytest.fixture
def record(tmp_path, traffic):
    """Writes a recording of traffic and returns its path."""
    return lambda seen, name="run.db": _written(tmp_path / name, traffic(seen) if isinstance(seen, str) else seen)


@pytest.fixture
def hostile(record):
    """A recording in which all text is hostile, in a file with a hostile name."""
    return record(HOSTILE, name="it's <b>%0A`x`,y::z.db")


@pytest.fixture(scope="session")
def extreme(tmp_path_factory, traffic):
    """A recording of an event of 10 MB, JSON nested 100,000 deep, half a surrogate pair, numbers of many digits."""
    deep = '{"type":"tool.started","content":' + "[" * 100_000 + "]" * 100_000 + "}"
    large = '{"type":"message.completed","content":"' + "é" * 5_000_000 + '"}'
    odd = r'{"type":"tool.started","sequence":1DIGITS,"content":{"name":"\ud800"}}'
    data = (deep, large, odd.replace("DIGITS", "0" * 5_000), odd.replace("DIGITS", "0" * 30))
    body = b"".join(f"event: tool.started\nid: e{len(one)}\ndata: {one}\n\n".encode() for one in data)
    seen = traffic('[[exchange]]\nrequest = "GET /v1/sessions/s/events/stream"\nbody = "x"\n')
    chunk = next(item for item in seen if isinstance(item, BytesArrived))
    seen[seen.index(chunk)] = replace(chunk, data=body, ends=(len(body),))
    return _written(tmp_path_factory.mktemp("extreme") / "run.db", seen)


@pytest.fixture(scope="session")
def together():
    """The traffic of vectors, one after the other: as many services, each with clients of its own."""

    def join(some, piece=None):
        seen, exchange, time_ns = [], 0, 0
        for number, vector in enumerate(some):
            seen += [_elsewhere(_moved(item, exchange, time_ns), number) for item in vector.observations(piece)]
            exchange = max(item.exchange for item in seen)
            time_ns = max(map(last_time_ns, seen))
        return seen

    return join


@pytest.fixture(scope="session")
def all_vectors(together):
    """The traffic of all vectors.  It breaks every rule."""
    return together(vectors())


@pytest.fixture(scope="session")
def all_vectors_file(all_vectors, tmp_path_factory):
    """A recording of it, which tests only read."""
    return _written(tmp_path_factory.mktemp("vectors") / "run.db", all_vectors)


@pytest.fixture
def run():
    """Runs `wiretape …` and returns click's result, with stdout and stderr apart."""
    return lambda *arguments: CliRunner().invoke(wiretape, [str(argument) for argument in arguments])


@pytest.fixture
def on_terminal():
    """Runs `wiretape …` on a terminal and returns its standard output.

    Standard error would have a progress bar if the machine is slow.
    """

    def written(*arguments, columns=60):
        main, side = pty.openpty()
        kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "LESS"}}
        environment = kept | {"TERM": "xterm-256color", "COLUMNS": str(columns), "PAGER": "cat"}
        with WiretapeProcess(*arguments, stdin=side, stdout=side, stderr=subprocess.DEVNULL, env=environment):
            os.close(side)
            output = b""
            while data := _read(main):
                output += data
            os.close(main)
        return output.decode().replace("\r\n", "\n")

    return written


def _read(terminal):
    try:
        return os.read(terminal, 65536)
    except OSError:  # nobody has the other side any more
        return b""


def _written(path, seen):
    seen = list(seen)
    origins = (f"{item.scheme}://{item.authority}" for item in seen if isinstance(item, RequestStarted))
    writer = Writer.create(path, upstream=join_upstreams(origins))
    writer.feed(seen)
    writer.close(last_time_ns(seen[-1]) + 1)
    return path


def _elsewhere(item, number):
    """The same observation at service `number`."""
    if not isinstance(item, RequestStarted):
        return item
    return replace(item, authority=f"{number}.{item.authority}", client=f"{number}.{item.client}")


def _moved(item, exchange, time_ns):
    """The same observation, later and of another exchange."""
    if isinstance(item, BytesArrived):
        return replace(item, exchange=item.exchange + exchange, times=[time + time_ns for time in item.times])
    return replace(item, exchange=item.exchange + exchange, time_ns=item.time_ns + time_ns)
