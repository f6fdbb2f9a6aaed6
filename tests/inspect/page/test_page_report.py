"""The page that `wiretape report --format html` writes, opened as a file."""

import pytest
from playwright.async_api import expect

from wiretape.recording import open_recording
from wiretape_inspect.report import ReportOptions, check_recording, html_format

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def broken(new_builder, message):
    """A stream whose third event goes back, and whose fourth repeats a sequence, then one that is no stream."""
    builder = new_builder()
    sequences = [1, 3, 2, 3, *range(4, 40)]
    events = [message("run.queued", id=f"e{at}", sequence=number) for at, number in enumerate(sequences)]
    builder.exchange(events)
    builder.exchange([b"{}"], target="/v1/sessions/s1", headers=(("content-type", "application/json"),))
    return builder.close()


@pytest.fixture
def reported(tmp_path):
    """Return the URL of a report about recordings, checked with the rules about sequences."""

    def report(*paths):
        page = tmp_path / "report.html"
        selected = frozenset({"SEQ001", "SEQ002", "SEQ003"})
        reports = [check_recording(open_recording(path), f"runs/{path.name}", selected=selected) for path in paths]
        page.write_bytes(b"".join(html_format.html_parts(reports, ReportOptions())))
        for each in reports:
            each.recording.close()
        return page.as_uri()

    return report


def listed(shown):
    return shown.page.locator("#findings-pane > .list .list-rows .row:visible")


def rules(shown):
    return shown.page.locator("#verdicts .list-rows .row:visible")


async def test_report_opens_with_the_findings_and_links_to_their_events(window, reported, broken):
    async with window(reported(broken)) as shown:
        await expect(shown.page.locator(".report-text")).to_contain_text("2 findings (2 errors) · ")
        await expect(listed(shown)).to_have_count(2)
        await expect(shown.panel()).to_contain_text("a sequence above 3")
        await expect(shown.panel()).to_contain_text("wiretape show runs/run.db --at 1:3")
        await expect(shown.panel().locator(".evidence")).to_contain_text("event: run.queued")
        await expect(shown.page.locator("#findings-button")).to_have_text("Findings ✕ 2")
        await shown.keys("Enter")
        await shown.has_hash("x=1", "e=3", "tab=findings")
        await expect(shown.chosen().locator(".n")).to_have_text("3")
        await expect(shown.panel()).to_contain_text("a sequence above 3")
        await shown.keys("4")
        await expect(shown.panel()).to_contain_text("Last-Event-ID: e2")


async def test_rules_are_listed_with_their_verdicts(window, reported, broken):
    async with window(reported(broken)) as shown:
        await shown.page.get_by_role("button", name="Rules 3").click()
        await shown.has_hash("x=1", "findings=1", "verdicts=1")
        await expect(rules(shown).locator(".verdict")).to_have_text(["✕ fail", "✕ fail", "✓ pass"])
        await shown.keys("j", "j")
        await expect(shown.panel()).to_contain_text("SEQ003")
        await shown.keys("k")
        await shown.panel().get_by_role("button").click()
        await shown.has_hash("x=1", "e=4", "tab=findings")
        await shown.page.go_back()
        await expect(rules(shown)).to_have_count(3)


async def test_recording_picker_switches_between_recordings(window, reported, broken, session):
    async with window(reported(session, broken)) as shown:
        await expect(shown.page.locator("#files")).to_have_text("2 of 2 recordings ▾")
        await shown.has_hash("f=2", "x=1", "findings=1")
        await shown.keys("o")
        await expect(shown.page.get_by_role("dialog")).to_contain_text("2 errors")
        await shown.keys("ArrowUp", "Enter")
        await expect(shown.page.locator("#files")).to_have_text("1 of 2 recordings ▾")
        await expect(shown.page.locator("#findings-pane")).to_contain_text("No findings.")
        await shown.page.go_back()
        await expect(listed(shown)).to_have_count(2)


async def test_report_of_a_large_recording_names_what_it_omits(window, reported, broken, monkeypatch):
    monkeypatch.setattr(html_format, "MAX_EVENTS", 20)
    async with window(reported(broken)) as shown:
        await expect(shown.page.locator(".report-part")).to_contain_text("up to 5 events before and after")
        await shown.keys("Enter")
        await expect(shown.rows()).to_have_count(11)
        assert (await shown.texts("type"))[-2] == "╌╌ 31 events omitted ╌╌"
        await shown.keys("4")
        await expect(shown.panel()).to_contain_text("Last-Event-ID: e2")
        await shown.go("#x=1&r=9")
        await expect(shown.panel()).to_contain_text("10 to 40, which are not near a finding")
