"""The page of a recording that is still being written."""

import pytest
from playwright.async_api import expect

from wiretape.observations import Ending
from wiretape.rules import Finding, Party, Severity

pytestmark = pytest.mark.asyncio(loop_scope="session")


def many(message, first, last):
    return [
        (1, message("run.queued", id=f"e{number}", sequence=number, run_id="r1")) for number in range(first, last + 1)
    ]


async def test_new_events_appear_and_the_scroll_position_stays(debugging, builder, message):
    number = builder.exchange(many(message, 1, 100), ending=None)
    builder.save()
    async with debugging(builder.path) as shown:
        await expect(shown.page.locator("#live")).to_have_text("live")
        await expect(shown.page.locator("#count")).to_have_text("100 events")
        scroller = shown.page.locator("#timeline .list-scroller")
        await scroller.evaluate("box => { box.scrollTop = 240; }")
        builder.extend(number, many(message, 101, 130))
        await expect(shown.page.locator("#more")).to_have_text("↓ 30 new")
        assert (await shown.texts("n"))[0] == "11"
        assert await scroller.evaluate("box => box.scrollTop") == 240
        await shown.page.locator("#more").click()
        await expect(shown.page.locator("#more")).to_be_hidden()
        await expect(shown.rows().last.locator(".n")).to_have_text("130")
        builder.extend(number, many(message, 131, 140), Ending.CLIENT_CLOSED)
        await expect(shown.rows().last.locator(".n")).to_have_text("end")
        await expect(shown.page.locator("#more")).to_be_hidden()
        await expect(shown.page.locator("#facts")).to_contain_text("client closed")
        builder.close()
        await expect(shown.page.locator("#live")).to_have_text("closed")


async def test_page_of_an_empty_recording_shows_the_first_stream_and_its_findings(debugging, builder, message):
    builder.save()
    async with debugging(builder.path) as shown:
        await expect(shown.page.locator("#facts")).to_have_text("This recording has no exchanges yet.")
        await expect(shown.page.locator("#no-rows")).to_contain_text("Nothing recorded yet.")
        await shown.keys(*"jkJKnpdtr1234ycY[]o", "Enter", "ArrowRight", "f", "f")
        builder.exchange([b"{}"], target="/v1/runs", method="POST", headers=(("content-type", "application/json"),))
        builder.save()
        await expect(shown.page.locator("#exchange")).to_contain_text("#1")
        number = builder.exchange(many(message, 1, 2), ending=None)
        builder.save()
        await expect(shown.page.locator("#exchange")).to_contain_text("#2")
        await expect(shown.page.locator("#count")).to_have_text("2 events")
        builder.find(Finding("SEQ001", Severity.ERROR, Party.SERVICE, number, 2, 2, 5, builder.now, "It is wrong."))
        builder.save()
        await expect(shown.page.locator("#findings-button")).to_contain_text("✕ 1")
        await expect(shown.rows().nth(1).locator(".marks")).to_contain_text("SEQ001")
        await expect(shown.page.locator("#newer")).to_be_hidden()
        builder.exchange(many(message, 3, 5), ending=None)
        builder.save()
        await shown.page.get_by_role("button", name="Newer stream: #3").click()
        await expect(shown.page.locator("#count")).to_have_text("3 events")
        await expect(shown.page.locator("#newer")).to_be_hidden()
        builder.close()


async def test_run_of_deltas_grows_in_its_row(debugging, builder, message):
    delta = (1, message("message.delta", run_id="r1", delta={"text": "word "}))
    number = builder.exchange([delta] * 3, ending=None)
    builder.save()
    async with debugging(builder.path) as shown:
        await expect(shown.rows().locator(".tag")).to_contain_text("3 deltas · 15 chars")
        builder.extend(number, [delta] * 4)
        await expect(shown.rows().locator(".tag")).to_contain_text("7 deltas · 35 chars")
        await expect(shown.rows()).to_have_count(1)
        builder.close()
