"""A filter leaves the same rows on the page, served or exported, as in `wiretape show`."""

import json

import pytest
from invoke import succeed
from tables import read_data

from wiretape import units
from wiretape.labels import count_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

TIMEOUT_MS = 45_000
FILTERS = read_data(__file__, "filters.txt").splitlines()


# Once the page has read the rows, they are drawn in the next frame.
_ROWS = read_data(__file__, "rows.js")


@pytest.fixture(scope="session")
def numbers(new_builder, recordings):
    builder = new_builder()
    builder.record(recordings["deltas"])
    return builder.close()


@pytest.fixture(scope="session")
def expected(numbers):
    """What the page should show with each filter: the number, the gap, and the id or the size of each row."""
    found = {}
    for filter_ in FILTERS:
        rows = [json.loads(line) for line in succeed("show", "--json", numbers, "--", filter_).stdout.splitlines()]
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


@pytest.mark.parametrize(("is_served", "step"), [(True, 1), (False, 4)], ids=["served", "exported"])
async def test_filter_leaves_the_rows_of_show(debugging, exporting, is_served, step, numbers, expected):
    async with (debugging if is_served else exporting)(numbers) as shown:
        for filter_, rows in list(expected.items())[::step]:
            await shown.page.locator("#filter").fill(filter_)
            found = await shown.page.evaluate(_ROWS, [rows, TIMEOUT_MS])
            assert (filter_, [tuple(row) for row in found]) == (filter_, rows)
