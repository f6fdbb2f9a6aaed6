"""The page drives a replay while a real client waits on the other side."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from aiohttp import ClientSession
from playwright.async_api import expect
from staging import until
from tables import read_data

from wiretape_inspect.debugger.replay_forwarder import ReplayAddress
from wiretape_replay import ReplayOptions, serve_replay
from wiretape_replay.client_verdict.client_checker import ClientChecker

pytestmark = pytest.mark.asyncio(loop_scope="session")

PATH = "/v1/sessions/s1/events/stream?event_deltas=true"


class Client:
    """Reads a stream and counts its events."""

    def __init__(self):
        self.events = []
        self._received = asyncio.Condition()

    async def read(self, url):
        async with ClientSession() as session, session.get(url, headers={"Authorization": "Bearer k"}) as answer:
            assert answer.status == 200
            async for line in answer.content:
                if line.startswith(b"event: "):
                    async with self._received:
                        self.events.append(line.decode().removeprefix("event: ").strip())
                        self._received.notify_all()

    async def has(self, number):
        """Wait for this many events, and check that there are no more."""
        async with self._received:
            await asyncio.wait_for(self._received.wait_for(lambda: len(self.events) >= number), 20)
        assert len(self.events) == number


@asynccontextmanager
async def waiting(url):
    client = Client()
    task = asyncio.create_task(client.read(url))
    try:
        yield client
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def replaying(debugging, session):
    """Debug a session beside its paused replay: `async with replaying("#x=2") as (replay, shown, bar)`."""

    @asynccontextmanager
    async def opening(hash_="", **options):
        async with (
            serve_replay(session, ReplayOptions(paused=True), **options) as replay,
            debugging(session, hash_, replay=ReplayAddress(replay.url, replay.token)) as shown,
        ):
            yield replay, shown, shown.page.locator("#playhead")

    return opening


async def test_playhead_is_stepped_and_run_to_a_breakpoint_while_a_client_waits(replaying):
    async with replaying() as (replay, shown, bar), waiting(replay.url + PATH) as client:
        await expect(bar.locator(".play-status")).to_have_text("paused")
        await expect(bar.locator(".play-next")).to_contain_text("run.started")
        client_line = bar.locator(".clients li")
        await expect(client_line).to_contain_text("Client 1: from the beginning, with deltas · waits for")
        await expect(client_line.locator("code")).to_contain_text("B: event: run.started\\nid: e1")
        assert await shown.page.locator("#timeline .row.unreleased:visible").count() == 7
        await shown.keys(".")
        await client.has(1)
        await expect(bar.locator(".play-next")).to_contain_text("tool.started")
        await expect(shown.page.locator("#timeline .row.next:visible .n")).to_have_text("2")
        await expect(shown.page.locator("#timeline .row:visible:not(.unreleased):not(.list-head) .n")).to_have_text("1")
        line = shown.page.locator("#strip .play-cursor")
        assert float(await line.get_attribute("x1")) > 12
        await bar.get_by_text("Breakpoints", exact=True).click()
        await bar.get_by_role("textbox", name="Break before").fill("message.completed")
        await shown.keys("Enter")
        await expect(bar.locator(".breakpoints li")).to_contain_text("type message.completed")
        await expect(shown.page.locator("#timeline .row.breakpoint:visible .n")).to_have_text("40")
        await shown.page.locator("#timeline .list").focus()
        await shown.keys(" ")
        await expect(bar.locator(".play-status")).to_have_text("at a breakpoint")
        await client.has(39)
        await shown.has_hash("x=2", "e=40")
        await expect(shown.chosen().locator(".type")).to_have_text("message.completed")
        await bar.get_by_role("button", name="Remove the breakpoint").click()
        await expect(bar.locator(".breakpoints li")).to_have_count(0)
        await bar.get_by_text("Breakpoints", exact=True).focus()
        await shown.keys("Escape")
        await expect(bar.get_by_role("textbox", name="Break before")).to_be_hidden()
        await bar.get_by_role("button", name="Step: send one event").click()
        await client.has(40)
        assert client.events[-1] == "message.completed"


async def test_bar_leaves_room_for_the_rows_and_dims_those_to_come(replaying):
    async with replaying("#x=2&e=1") as (_, shown, bar):
        await shown.page.set_viewport_size({"width": 1100, "height": 700})
        await expect(bar.locator(".play-next")).to_contain_text("run.started")
        await expect(shown.rows()).to_have_count(7)
        await expect(bar.get_by_label("Speed", exact=True)).to_have_value("max")
        found = await shown.page.evaluate(read_data(__file__, "layout.js"))
        assert (found["firstRow"] <= 160, found["cut"]) == (True, [])
        texts = shown.page.locator("#timeline .row.unreleased:visible span")
        assert len(set(await texts.evaluate_all("all => all.map((one) => getComputedStyle(one).color)"))) == 1


async def test_breakpoint_and_seek_use_the_selected_event(replaying):
    async with replaying("#x=2&e=2") as (_, shown, bar):
        await expect(bar.locator(".play-status")).to_have_text("paused")
        await expect(shown.chosen()).to_have_count(1)
        await shown.keys("b")
        await expect(bar.locator(".breakpoints li")).to_contain_text("sequence 2")
        await shown.keys("s")
        await expect(bar.locator(".count")).to_contain_text("2 / ")
        await bar.get_by_role("button", name="Go back to the beginning").click()
        await expect(bar.locator(".count")).to_contain_text("0 / ")


async def test_page_follows_the_playhead_unless_told_not_to(replaying):
    async with replaying("#x=2&e=1") as (replay, shown, bar):
        await expect(bar.locator(".play-status")).to_have_text("paused")
        await expect(shown.panel()).to_contain_text("The replay has not sent this yet.")
        await shown.keys(".")
        await shown.has_hash("x=2", "e=2")
        await shown.keys("F", ".")
        await expect(bar.locator(".play-next")).to_contain_text("message.delta")
        await expect(shown.panel()).not_to_contain_text("The replay has not sent this yet.")
        await shown.has_hash("x=2", "e=2")
        await shown.keys("F")
        await shown.has_hash("x=2", "e=3")
        await expect(bar).to_contain_text(f"Clients connect to {replay.url}")
        await shown.keys(" ")
        await shown.has_hash("x=3", "e=1")


async def test_rule_that_the_client_breaks_is_shown_at_once(replaying):
    async with replaying(checker=ClientChecker()) as (replay, _, bar), ClientSession() as client:
        url = f"{replay.url}{PATH}&api_key=secret"
        async with client.get(url, headers={"Authorization": "Bearer k"}) as answer:
            assert answer.status == 200
            notice = bar.locator(".client-findings")
            await expect(notice).to_contain_text("The client broke a rule: ▲ warning CLI008")
            await notice.get_by_role("button", name="Dismiss").click()
            await expect(notice).to_be_hidden()


async def test_replay_is_stepped_with_the_keyboard_and_has_accessible_names(replaying):
    async with replaying() as (replay, shown, bar), waiting(replay.url + PATH):
        await expect(bar.locator(".clients li")).to_contain_text("Client 1")
        await shown.keys(">")
        await expect(bar.locator(".count")).to_contain_text("1 / ")
        await bar.get_by_role("button", name="Step to the next event with a finding").focus()
        await shown.keys("Tab")
        speed = bar.get_by_label("Speed", exact=True)
        await expect(speed).to_be_focused()
        await speed.select_option("0.5")
        await expect(speed).to_have_value("0.5")
        await until(lambda: replay.control.state().speed == 0.5)
        await bar.get_by_role("button", name="Go back to the beginning").focus()
        await shown.keys(" ")
        await expect(bar.locator(".count")).to_contain_text("0 / ")
        await bar.get_by_role("button", name="Step: send one event").click()
        await expect(bar.locator(".count")).to_contain_text("1 / ")
        await shown.keys(" ")
        await expect(bar.get_by_text("❚❚ Pause")).to_be_visible()
        await bar.get_by_text("Breakpoints", exact=True).focus()
        await shown.keys("Enter")
        await bar.get_by_role("textbox", name="Break before").fill("run.*")
        await shown.keys("Enter")
        await expect(bar.get_by_role("button", name="Remove the breakpoint type run.*")).to_be_visible()
        await shown.check_accessibility_tree()


async def test_unreachable_replay_is_reported(debugging, session):
    async with serve_replay(session, ReplayOptions(paused=True)) as replay:
        gone = ReplayAddress(replay.url, replay.token)
    async with debugging(session, replay=gone) as shown:
        await expect(shown.page.locator("#error-message")).to_be_visible()
        shown.problems[:] = [problem for problem in shown.problems if "502" not in problem]
