"""Where the parts of the page are at common sizes, and that nothing is cut."""

import re

import pytest
from playwright.async_api import expect
from tables import read_data

pytestmark = pytest.mark.asyncio(loop_scope="session")

_LAYOUT = read_data(__file__, "layout.js")
SIZES = ((1100, 700), (1440, 900), (1920, 1080))


@pytest.fixture(scope="session")
def long_stream(new_builder, message):
    """A stream of tool calls with long ids and long inputs."""
    builder = new_builder()
    builder.exchange([b"{}"], target="/v1/sessions", method="POST", headers=(("content-type", "application/json"),))
    chunks = []
    for n in range(60):
        call = {"tool_call_id": f"call_{n:020}", "name": "search", "input": {"query": "words " * 30}}
        chunks.append((20, message("tool.started", id=f"evt_ses_{n:020}", sequence=n, content=call)))
    builder.exchange(chunks, target="/v1/sessions/ses_0123456789abcdef0123/events/stream?event_deltas=true")
    return builder.close()


async def show(shown, width, height, hash_):
    """Show a view at a size; return where its parts are."""
    await shown.page.set_viewport_size({"width": width, "height": height})
    await shown.go(hash_)
    await expect(shown.rows().first).to_be_visible()
    await shown.page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return await shown.page.evaluate(_LAYOUT)


@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("hash_", ["#x=2", "#x=2&e=10", "#x=2&e=10&tab=headers"])
async def test_content_keeps_its_width_and_nothing_is_cut(reading, long_stream, width, height, hash_):
    async with reading(long_stream, hash_) as shown:
        found = await show(shown, width, height, hash_)
        assert found["content"] >= 40
        assert found["cut"] == []
        assert found["isBelow"] == (width < 1600)
        assert found["tabLines"] == 1
        assert all(re.fullmatch(r"(evt_ses…(\d{10})?\d{6})?", id_) for id_ in await shown.texts("id"))
        assert len(set(found["values"])) <= 1


async def test_details_stay_where_the_reader_puts_them(debugging, long_stream):
    async with debugging(long_stream, "#x=2&e=10") as shown:
        for width, is_hidden, is_below in ((1440, False, True), (1100, True, True), (1920, False, False)):
            found = await show(shown, width, 900, "#x=2&e=10")
            assert (found["isBelow"], await shown.page.locator("#dock").is_hidden()) == (is_below, is_hidden)
        await shown.page.get_by_role("button", name="Below").click()
        for hash_ in ("#x=2&e=10&q=type:nothing", "#x=1", "#x=2&e=10"):
            await shown.go(hash_)
            assert (await shown.page.evaluate(_LAYOUT))["isBelow"]
