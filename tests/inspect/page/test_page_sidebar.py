"""The list of exchanges: it is sorted, searched, resized and chosen from, and counts the matches of the filter."""

import re

import pytest
from playwright.async_api import expect

from wiretape.observations import Ending
from wiretape.rules import Finding, Party, Severity

pytestmark = pytest.mark.asyncio(loop_scope="session")

JSON = (("content-type", "application/json"),)


@pytest.fixture
def recording(builder, recordings):
    """Six exchanges: requests with three statuses, and two streams of which the second has a finding."""
    number = builder.record(recordings["statuses"])[4]
    builder.find(Finding("DUR004", Severity.ERROR, Party.SERVICE, number, 1, 4, 0, 5, "Expected no id, got `e4`."))
    return builder.close()


class Sidebar:
    def __init__(self, shown):
        self.page = shown.page
        self.rows = self.page.locator("#exchanges .list-rows .row:visible")

    async def has(self, column, *texts):
        await expect(self.rows.locator(f".{column}")).to_have_text(list(texts))

    async def find(self, text):
        await self.page.locator("#timeline .list").focus()
        await self.page.keyboard.press("x")
        await self.page.keyboard.type(text)


async def test_sidebar_is_hidden_shown_and_searched_by_status_method_and_finding(debugging, recording):
    async with debugging(recording) as shown:
        sidebar = Sidebar(shown)
        await shown.keys("e")
        await expect(shown.page.locator("#sidebar")).to_be_hidden()
        await sidebar.find("")
        await sidebar.has("n", "1", "2", "3", "4", "5", "6")
        for text, numbers in (
            ("429", "3"),
            ("429 409", "34"),
            ("4xx", "346"),
            ("post", "134"),
            ("#6", "6"),
            ("dur004", "5"),
            ("stream s1", "25"),
        ):
            await sidebar.find(text)
            await sidebar.has("n", *numbers)
        await expect(shown.page.locator("#exchange-count")).to_have_text("2 / 6")
        await shown.keys("ArrowDown", "ArrowUp")
        await shown.has_hash("x=2")
        await expect(shown.page.locator("#exchange-search")).to_be_focused()
        await shown.keys("Enter")
        await expect(shown.page.get_by_role("grid", name="Timeline")).to_be_focused()
        await sidebar.find('opening "hours"')
        await sidebar.has("n")
        await shown.page.get_by_role("button", name="Search all events for").click()
        await shown.has_hash("x=2", "q=%22opening%20%5C%22hours%5C%22%22")
        await sidebar.has("n", "1", "2", "3", "4", "5", "6")
        await sidebar.find("opening hours")
        await shown.page.get_by_role("button", name="Search all events for").click()
        await sidebar.has("n", "2", "5")


async def test_sidebar_is_sorted_by_its_columns(debugging, recording):
    async with debugging(recording, "#x=5&e=1") as shown:
        sidebar = Sidebar(shown)
        await expect(shown.panel()).to_contain_text("opening hours")
        await sidebar.rows.nth(4).click()
        await shown.has_hash("x=5")
        await expect(shown.panel()).to_contain_text("longest silence900 ms")
        status = shown.page.get_by_role("columnheader", name="status").first
        await status.get_by_role("button").click()
        await sidebar.has("status", "429", "409", "404", "201", "200", "200")
        await expect(status).to_have_attribute("aria-sort", "descending")
        await status.get_by_role("button").click()
        await sidebar.has("n", "2", "5", "1", "6", "4", "3")
        await shown.page.get_by_role("columnheader", name="findings").get_by_role("button").click()
        await expect(sidebar.rows.first.locator(".n")).to_have_text("5")


async def test_sidebar_marks_exchanges_that_were_cut_off(debugging, builder, message):
    event = (5, message("run.started", id="e1", sequence=1))
    for ending in (Ending.COMPLETE, Ending.SERVICE_RESET, Ending.CLIENT_CLOSED, Ending.SERVICE_CLOSED):
        builder.exchange([event], ending=ending)
    builder.exchange(status=None, ending=Ending.SERVICE_UNREACHABLE)
    async with debugging(builder.close()) as shown:
        sidebar = Sidebar(shown)
        await sidebar.has("status", "200", "200╌", "200", "200╌", "---╌")
        await expect(sidebar.rows.nth(1)).to_have_attribute("title", re.compile(r" · service reset"))
        await expect(sidebar.rows.nth(1).locator(".status")).to_have_class(re.compile("bad"))
        await sidebar.find("reset")
        await sidebar.has("n", "2")


async def test_wide_sidebar_shows_events_durations_and_sessions(debugging, recording):
    async with debugging(recording) as shown:
        sidebar = Sidebar(shown)
        await expect(sidebar.rows.first.locator(".events")).to_be_hidden()
        splitter = shown.page.get_by_role("separator", name="Width of the list of exchanges")
        box = await splitter.bounding_box()
        await shown.page.mouse.move(box["x"] + 3, 400)
        await shown.page.mouse.down()
        await shown.page.mouse.move(box["x"] + 303, 400, steps=3)
        await shown.page.mouse.up()
        await sidebar.has("events", "", "3", "", "", "1", "")
        await expect(sidebar.rows.nth(4).locator(".duration")).to_have_text("0.902s")
        await expect(sidebar.rows.nth(1).locator(".channel")).to_have_text("s1")
        await expect(sidebar.rows.nth(4).locator(".marks")).to_contain_text("DUR004")
        grip = await shown.page.locator("#exchanges .list-head .n .grip").bounding_box()
        before = await sidebar.rows.first.locator(".n").bounding_box()
        await shown.page.mouse.move(grip["x"] + 4, grip["y"] + 5)
        await shown.page.mouse.down()
        await shown.page.mouse.move(grip["x"] + 44, grip["y"] + 5, steps=2)
        await shown.page.mouse.up()
        after = await sidebar.rows.first.locator(".n").bounding_box()
        assert 30 < after["width"] - before["width"] < 50


async def test_sessions_are_named_grouped_and_chosen(debugging, builder, message):
    for name in ("s1", "s2"):
        json_body = {"headers": JSON, "chunks": [(1, b'{"id": "%s"}' % name.encode())], "status": 201}
        builder.exchange(target="/v1/sessions", method="POST", **json_body)
        builder.exchange(target=f"/v1/sessions/{name}/runs", method="POST", **json_body)
        builder.exchange([message("run.started", id="e1", sequence=1)], target=f"/v1/sessions/{name}/events/stream")
    async with debugging(builder.close(), "#x=6") as shown:
        sidebar = Sidebar(shown)
        await sidebar.has("channel", "s1", "s1", "s1", "s2", "s2", "s2")
        await sidebar.has("path", "/v1/sessions", "/runs", "/events/stream", "/v1/sessions", "/runs", "/events/stream")
        await shown.page.get_by_role("combobox", name="Exchanges of").select_option("s2 · 3")
        await sidebar.has("n", "4", "5", "6")
        await shown.page.get_by_role("combobox", name="Exchanges of").select_option("All 2 sessions")
        for _ in range(2):
            await shown.page.get_by_role("columnheader", name="session").get_by_role("button").click()
        await sidebar.has("n", "4", "5", "6", "1", "2", "3")
        await expect(sidebar.rows.nth(3)).to_have_class(re.compile("next-group"))
        await shown.page.locator("#filter").fill("session:s2")
        await sidebar.has("matches", "1", "1", "1", "", "", "")


async def test_filter_counts_its_matches_in_each_exchange(exporting, recording):
    async with exporting(recording) as shown:
        await expect(shown.rows()).to_have_count(2)
        sidebar = Sidebar(shown)
        await shown.keys("/")
        await shown.page.keyboard.type('"opening hours"')
        elsewhere = shown.page.locator("#elsewhere")
        await expect(elsewhere).to_have_text("3 matches in 1 other exchange. Go to #2")
        await sidebar.has("matches", "", "3", "", "", "1", "")
        await shown.page.locator("#only-matches").click()
        await sidebar.has("n", "2", "5")
        await elsewhere.get_by_role("button").click()
        await shown.has_hash("x=2", "q=%22opening%20hours%22")
        await expect(elsewhere).to_have_text("1 match in 1 other exchange. Go to #5")
        await shown.page.locator("#filter").fill("type:nothing")
        await expect(elsewhere).to_be_hidden()
        await expect(shown.page.locator("#only-matches")).to_be_hidden()
        await shown.page.locator("#filter").fill("kind:request")
        await expect(elsewhere).to_have_text("4 matches in 4 other exchanges. Go to #3")
        await shown.page.locator("#filter").fill("")
        await expect(elsewhere).to_be_hidden()
        await sidebar.has("n", "1", "2", "3", "4", "5", "6")
