"""A filter leaves the same rows on the page, served or exported, as in `wiretape show`."""

import json
import re

import pytest
from playwright.async_api import expect

from wiretape import units
from wiretape.labels import count_of
from wiretape.recording import open_recording
from wiretape_inspect.page_export import export_page

pytestmark = pytest.mark.asyncio(loop_scope="session")

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
]


@pytest.fixture
def numbers(tape, message):
    """A stream with three runs of deltas, one of them with a delta of a tool call."""
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


def rows_in_terminal(run, path, filter_):
    """What the page should show: the number, the gap, and the id or the size of each row."""
    result = run("show", "--json", path, "--", filter_)
    assert result.exit_code == 0, result.stderr
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    return [columns(row) for row in rows if row["row"] != "exchange"]


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


async def rows_on_page(shown, filter_):
    await shown.page.locator("#filter").fill(filter_)
    await shown.page.wait_for_timeout(50)
    await expect(shown.page.locator("#count")).not_to_have_class(re.compile("reading"))
    numbers, gaps, tags = [await shown.texts(column) for column in ("n", "gap", "what > .tag")]
    rows = zip(numbers, gaps, tags, strict=True)
    return [(number, f"{gap} {tag}".strip() if number.isdigit() else "") for number, gap, tag in rows]


async def check(shown, run, path):
    for filter_ in FILTERS:
        assert (filter_, await rows_on_page(shown, filter_)) == (filter_, rows_in_terminal(run, path, filter_))


async def test_filter_leaves_the_rows_of_show_on_the_served_page(debugging, run, numbers):
    async with debugging(numbers) as shown:
        await check(shown, run, numbers)


async def test_filter_leaves_the_rows_of_show_on_an_exported_page(window, run, numbers, tmp_path):
    path = tmp_path / "page.html"
    with open_recording(numbers) as recording:
        path.write_bytes(b"".join(export_page(recording)))
    async with window(path.as_uri()) as shown:
        await check(shown, run, numbers)
