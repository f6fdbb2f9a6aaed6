"""Findings with their evidence, headers, and what can be copied."""

import re
import shlex
from dataclasses import replace

import pytest
from findings import finding
from playwright.async_api import expect

from wiretape.checker import CATALOGUE
from wiretape.recording import open_recording
from wiretape.rules import Party, Severity

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture(scope="session")
def recording(new_builder, recordings):
    """A stream with two findings of the service, and a request with one of the client."""
    builder = new_builder()
    number, other = builder.record(recordings["findings"])
    missing = finding(exchange=other, code="CLI001", message="Expected the header `Authorization: Bearer …`, got none.")
    with_id = "Expected no `id` line in a `message.delta` event, got the id `live_7`."
    builder.find(
        finding(2, exchange=number, code="DUR004", offset=77, message=with_id),
        replace(
            finding(3, exchange=number, message="Expected a sequence above 4, got 3."), sequence=3, byte_offset=200
        ),
        replace(missing, severity=Severity.WARNING, side=Party.CLIENT),
    )
    return builder.close()


class Clipboard:
    """Presses a button that copies, and returns what it copied."""

    def __init__(self, shown):
        self.shown = shown

    async def press(self, name):
        page = self.shown.page
        await page.evaluate("""() => {
            const writeText = async (text) => { window.copied = text; };
            Object.defineProperty(navigator, "clipboard", { value: { writeText }, configurable: true });
            document.getElementById("hint")?.replaceChildren();
        }""")
        await self.shown.panel().get_by_role("button", name=name).click()
        await expect(page.locator("#hint")).to_contain_text("Copied")
        return await page.evaluate("window.copied")


async def test_live_finding_has_the_evidence_of_a_report(exporting, recording):
    async with exporting(recording) as shown:
        card = shown.panel().locator(".finding-card")
        await shown.go("#x=1&e=2&tab=findings")
        await expect(card.locator(".offending")).to_have_text("live_7")
        await expect(card.locator(".both dd code").last).to_have_text("live_7")
        about = CATALOGUE["DUR004"].explanation
        for text in ("usual fix", about.fix.replace("`", ""), about.why.replace("`", ""), "Events 2:"):
            await expect(card).to_contain_text(text)
        await shown.go("#x=1&e=3&tab=findings")
        await expect(card.locator(".offending")).to_have_text("3")


async def test_findings_are_filtered_and_grouped(reading, recording):
    async with reading(recording, "#findings=1") as shown:
        rows = shown.page.locator("#findings-pane .list-rows .row:visible")
        await expect(rows).to_have_count(3)
        choose = shown.page.get_by_label
        await rows.last.click()
        await expect(shown.panel()).to_contain_text("CLI001")
        await shown.has_hash("x=1", "findings=1")
        await expect(shown.page.locator("#exchanges .row.chosen .n")).to_have_text("2")
        await expect(shown.page.locator("#exchange")).to_have_text("All findings")
        await expect(shown.page.locator("#strip .density")).to_have_count(
            0
        )  # the exchange of the finding is not a stream
        await choose("Side", exact=True).select_option("service")
        await expect(choose("Severity", exact=True).locator("option")).to_have_text(
            ["all severities", "error (2)", "warning (0)"]
        )
        await expect(shown.panel()).to_contain_text("DUR004")
        await expect(rows.first).to_have_class(re.compile("chosen"))
        await choose("Side", exact=True).select_option("client")
        await expect(rows.locator(".rule")).to_have_text([re.compile("^CLI001 ")])
        await choose("Side", exact=True).select_option("")
        await choose("Severity", exact=True).select_option("error")
        await expect(rows).to_have_count(2)
        await choose("Severity", exact=True).select_option("")
        await choose("Group", exact=True).select_option("rule")
        await expect(rows.locator(".rule")).to_have_text(
            [re.compile(f"{one} ") for one in ("▾ DUR004", "DUR004", "▾ SEQ001", "SEQ001", "▾ CLI001", "CLI001")]
        )
        assert [await rows.nth(at).locator(".rule").is_visible() for at in (0, 1)] == [True, False]
        assert len({(await row.bounding_box())["height"] for row in await rows.all()}) == 1
        await rows.first.click()
        await expect(rows).to_have_count(5)
        await expect(rows.first).to_have_attribute("aria-expanded", "false")
        await expect(shown.panel()).to_contain_text("Omit the id line from deltas.")
        await shown.go("#x=1")
        await expect(shown.page.locator("#strip .density")).to_have_count(1)


async def test_headers_of_a_stream_are_shown(reading, recording):
    async with reading(recording, "#x=1&e=2") as shown:
        await shown.keys("5")
        await expect(shown.panel()).to_contain_text("HTTP/1.1")
        await expect(shown.panel()).to_contain_text("127.0.0.1")
        await expect(shown.panel()).to_contain_text("text/event-stream")
        await expect(shown.panel()).to_contain_text("a\\x1bb")
        await shown.keys("j")
        await shown.has_hash("x=1", "e=3")
        await shown.go("#x=2&tab=headers")
        await expect(shown.panel()).to_contain_text("application/json")


async def test_request_is_copied_as_a_curl_command(reading, recording):
    async with reading(recording, "#x=1&tab=headers") as shown:
        clipboard = Clipboard(shown)
        assert (await clipboard.press("Copy as curl")).split(" \\\n  ") == [
            "curl -N",
            "'http://service.test/v1/sessions/s1/events/stream?event_deltas=true'",
            "-H 'Authorization: Bearer '\"$API_KEY\"",
            "-H $'X-It\\x27s: a\\x1bb'",
        ]
        await shown.go("#x=1")
        assert (await clipboard.press("Copy as curl")).startswith("curl -N")
        await shown.go("#x=1&e=3&tab=state")
        command = shlex.split((await clipboard.press("Copy resume as curl")).replace("\\\n", ""))
        cursor = await shown.panel().locator(".fact", has_text="resumes with").locator("code").text_content()
        assert command[-2:] == ["-H", f"Last-Event-ID: {cursor}"]
        await shown.go("#x=2")
        command = await clipboard.press("Copy as curl")
        assert shlex.split(command.replace("\\\n", ""))[1:] == [
            "http://service.test/v1/runs",
            "--data-raw",
            '{"it\'s": 1}',
        ]


async def test_event_is_copied_with_its_fields_as_bytes_and_as_a_test(reading, recording):
    with open_recording(recording) as opened:
        raw = next(event.raw for event in opened.events(1) if event.number == 3)
    async with reading(recording, "#x=1&e=3") as shown:
        clipboard = Clipboard(shown)
        assert (await clipboard.press("Copy event")).encode() == raw
        code = await clipboard.press("Copy as test")
        assert "SEQ001" in code
        scope = {}
        exec(code, scope)  # noqa: S102 - the page made it
        scope["test_event_3_of_exchange_1"]()
        await shown.keys("2")
        assert (await clipboard.press("Copy raw")).encode() == raw


async def test_many_findings_are_grouped_and_lead_to_the_exchanges_they_name(debugging, builder, message):
    """Filters that have only one value to choose from are left out."""
    numbers = [builder.exchange([message("run.started", id=f"e{n}", sequence=n)]) for n in range(10)]
    builder.find(*(finding(1, exchange=n, message=f"Expected a wait of 6 s after exchange {n - 1}.") for n in numbers))
    async with debugging(builder.close(), "#x=1&findings=1") as shown:
        rows = shown.page.locator("#findings-pane .list-rows .row:visible")
        await expect(rows.first.locator(".place")).to_have_text("10 findings")
        await expect(shown.page.locator(".findings-bar select")).to_have_count(1)
        await expect(shown.panel().get_by_role("button", name="exchange 0")).to_have_count(0)
        await shown.keys("j", "j")
        await shown.panel().get_by_role("button", name="exchange 2", exact=True).click()
        await shown.has_hash("x=2")
