"""A filter leaves the same rows on the page, served or exported, as in `wiretape show`."""

import json

import pytest
from click.testing import CliRunner

from wiretape import units
from wiretape.cli import wiretape
from wiretape.labels import count_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

TIMEOUT_MS = 45_000
FILTERS = [
    "eight",
    "-eight",
    "event:4..6",
    "-event:5",
    "gap:>15ms",
    "gap:<15ms kind:delta",
    "tool:t1",
    "-tool:t1 kind:delta",
    "kind:delta",
    "kind:message -text:n",
    "type:message.* or kind:end",
    "EIGHT or /v1/ or keep-alive",
    '"\\"text\\": \\"seven"',
    "seq:1..2 text:tool",
    "text:\U0001f600",
    "-kind:delta",
    "text:nothing",
    '"eight nine"',
    '"n seven eight"',
    '"ten" or "x seven"',
    '"nine \U0001f600 tenx" -event:8',
    '-"five six" kind:delta',
    '"tenxseven"',
    '"eight fx"',
]


# Once the page has read the rows, they are drawn in the next frame.
_ROWS = """async ([expected, timeout]) => {
    const frame = () => new Promise(requestAnimationFrame);
    const until = performance.now() + timeout;
    const text = (row, name) => row.querySelector(`:scope > .${name}`).textContent;
    const read = () => [...document.querySelectorAll("#timeline .list-rows .row:not([hidden])")].map((row) => {
        const number = text(row, "n");
        return [number, /^\\d+$/.test(number) ? `${text(row, "gap")} ${text(row, "what > .tag")}`.trim() : ""];
    });
    const isShown = () => JSON.stringify(read()) === JSON.stringify(expected);
    const isBusy = () => document.querySelector("#count.reading") || !isShown();
    do { await frame(); await frame(); } while (isBusy() && performance.now() < until);
    return read();
}"""


@pytest.fixture(scope="session")
def numbers(new_tape, message):
    """A stream with three runs of deltas, one of them with a delta of a tool call."""
    tape = new_tape()
    words = ["five ", "six ", "seven ", "eight ", "nine ", "\U0001f600 ten"]
    deltas = [(10, message("message.delta", run_id="r1", delta={"text": word})) for word in words]
    tape.exchange(
        chunks=[
            (5, message("run.started", id="e1", sequence=1, run_id="r1")),
            *deltas,
            (20, message("message.delta", run_id="r1", delta={"text": "x"}, content={"tool_call_id": "t1"})),
            (2000, b": keep-alive\n\n"),
            *deltas[2:4],
            (1, message("tool.started", id="e2", sequence=2, content={"tool_call_id": "t1", "name": "f", "input": 8})),
            (30, message("message.delta", run_id="r1", delta={})),
            (1, b"event: message.del"),
        ]
    )
    return tape.close()


@pytest.fixture(scope="session")
def expected(numbers):
    """What the page should show with each filter: the number, the gap, and the id or the size of each row."""
    found = {}
    for filter_ in FILTERS:
        result = CliRunner().invoke(wiretape, ["show", "--json", str(numbers), "--", filter_])
        assert result.exit_code == 0, result.stderr
        rows = [json.loads(line) for line in result.stdout.splitlines()]
        found[filter_] = [columns(row) for row in rows if row["row"] != "exchange"]
    return found


def columns(row):
    if "event" not in row:
        return ("" if row["row"] == "pause" else row["row"], "")
    gap = f"+{units.format_time(row['gap_ns'])}"
    if row["row"] == "event":
        return (str(row["event"]), f"{gap} {row['id'] or ''}".strip())
    parts = [count_of(row["count"], "delta")]
    parts += [count_of(row["characters"], "char")] if row["characters"] else []
    parts += [units.format_duration(row["until_ns"] - row["time_ns"])] if row["count"] > 1 else []
    return (str(row["event"]), f"{gap} {' · '.join(parts)}")


async def test_filter_leaves_the_rows_of_show(either, numbers, expected):
    async with either(numbers) as shown:
        for filter_, rows in expected.items():
            await shown.page.locator("#filter").fill(filter_)
            found = await shown.page.evaluate(_ROWS, [rows, TIMEOUT_MS])
            assert (filter_, [tuple(row) for row in found]) == (filter_, rows)
