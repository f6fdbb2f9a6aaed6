"""An exported page, opened as a file."""

import pytest
from playwright.async_api import expect

from wiretape.observations import Ending

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_exported_page_shows_rows_payload_bytes_and_state(window, exported, session):
    async with window(exported(session)) as shown:
        await expect(shown.page.locator("#file")).to_have_text("run.db")
        await expect(shown.rows()).to_have_count(7)
        await shown.keys("/")
        await shown.page.keyboard.type("kind:delta")
        await expect(shown.page.locator("#count")).to_have_text("37 / 40")
        await shown.keys("Enter", "j", "Enter", "j", "j")
        await shown.has_hash("x=2", "e=4", "q=kind:delta", "open=e3")
        await expect(shown.panel()).to_contain_text('"word "')
        await shown.keys("r")
        await expect(shown.page.locator("#hex .list-rows .row:visible").first.locator(".text")).to_contain_text(
            "event:"
        )
        await shown.go("#x=2&r=5&tab=bytes")
        lines = shown.page.locator("#hex .list-rows .row:visible .text")
        await expect(lines).to_have_text(["event:\u00a0run.comp"])
        await shown.go("#x=2&e=4&open=e3&q=kind:delta")
        await shown.keys("4")
        await expect(shown.panel().locator(".spoken")).to_have_text("word word ")
        await expect(shown.panel()).to_contain_text("Last-Event-ID: e2")
        await shown.go("#x=2&q=content")
        await expect(shown.page.locator("#count")).to_have_text("2 / 40")
        await shown.go("#x=1")
        await expect(shown.panel()).to_contain_text("Session s1 is busy.")
        await shown.go("#x=3&resume=2")
        await expect(shown.page.locator("#resume-pane h2")).to_contain_text("#2 then #3")


async def test_the_client_state_marks_an_event_that_the_client_may_not_have_read(exporting, builder, message):
    first, last = message("run.started", id="e1", sequence=1), message("run.completed", id="e2", sequence=2)
    builder.exchange([first, (5000, last)], ending=Ending.SERVICE_RESET)
    mark = "if it has read this event"
    async with exporting(builder.close(), "#x=1&e=1&tab=state") as shown:
        await expect(shown.panel()).to_contain_text("Last-Event-ID: e1")
        await expect(shown.panel()).not_to_contain_text(mark)
        await shown.go("#x=1&e=2&tab=state")
        await expect(shown.panel()).to_contain_text(f"Last-Event-ID: e2 after sequence 2 {mark}")
