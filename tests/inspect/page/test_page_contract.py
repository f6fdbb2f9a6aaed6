"""The page shows the traffic of an API with the names that its contract gives to channels, entities and cursors."""

import re

import pytest
from playwright.async_api import expect

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_rows_filters_and_the_state_have_the_names_of_the_contract(exporting, forum):
    async with exporting(forum, "#x=1&e=7") as shown:
        await expect(shown.rows()).to_have_count(8)
        await expect(shown.panel()).to_contain_text("event7 · durablesequence2itemi2time")
        await expect(shown.page.get_by_role("button", name="Parts")).to_be_visible()
        for text, events in (("thread:t7 part:i1/0", ["2", "3", "5"]), ("item:i2", ["7", "8"]), ("rule:FRM001", "17")):
            await shown.page.locator("#filter").fill(text)
            await expect(shown.rows().locator(".n")).to_have_text(list(events))
        await shown.page.locator("#filter").fill("session:t7")
        await expect(shown.page.locator("#filter-error")).to_contain_text(
            "expected one of type, kind, id, rule, method, item, part, thread,"
        )
        await shown.keys("Escape")
        await shown.go("#x=1&e=6&tab=state")
        await expect(shown.panel()).to_contain_text("resumes withafter: 1 after sequence 1connections#1")
        await expect(shown.panel().locator("h3")).to_have_text(["Post so far 11 characters", "Open parts", "Items"])
        await expect(shown.panel().locator(".spans")).to_have_text(
            [re.compile('^i1/1.*"Rest"} open 1:6$'), "i1 open 1:1"]
        )


async def test_findings_and_two_connections_have_the_names_of_the_contract(exporting, forum):
    async with exporting(forum, "#x=2&findings=1") as shown:
        card = shown.panel().locator(".finding-card")
        await expect(card.locator("h3")).to_have_text(re.compile("FRM001 item-without-title"))
        await expect(card).to_contain_text("Lists of items show it.")
        await expect(card).not_to_contain_text("wiretape rule")
        await shown.go("#x=2")
        await shown.page.get_by_role("button", name="Compare #1").click()
        pane = shown.page.locator("#resume-pane")
        await expect(pane.locator("h2")).to_have_text("#1 then #2 resumed after 1")
        await expect(pane.locator(".list-rows .row:visible .tag")).to_have_text(["1", "2", "3", ""])
        statuses = ["· known", "= same", "= same", ""]
        await expect(pane.locator(".list-rows .row:visible .status")).to_have_text(statuses)
