"""The page with an ordinary session: what it shows, and its keys."""

import json
import re

import pytest
from findings import finding
from playwright.async_api import expect
from tables import read_data

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_first_view_shows_the_stream_and_how_it_ended(reading, shared_session):
    async with reading(shared_session) as shown:
        await shown.has_hash("x=2")
        await expect(shown.page.locator("#exchange")).to_contain_text("#2")
        await expect(shown.page.locator("#facts")).to_contain_text("service reset in mid-event")
        await expect(shown.page.locator("#count")).to_have_text("40 events")
        await expect(shown.rows()).to_have_count(7)
        assert await shown.texts("n") == ["1", "2", "3", "", "40", "cut", "end"]
        assert await shown.texts("seq") == ["1", "2", "Δ", "", "3", "", ""]
        assert (await shown.texts("type"))[2:4] == ["▸ message.delta", "╌╌ 16.1 s · 1 keep-alive ╌╌"]
        await expect(shown.panel()).to_contain_text("GET /v1/sessions/s1/events/stream")


async def test_keys_step_between_rows_and_durable_events(reading, shared_session):
    async with reading(shared_session) as shown:
        await expect(shown.rows()).to_have_count(7)
        await shown.keys("j", "j")
        await shown.has_hash("x=2", "e=2")
        await expect(shown.chosen().locator(".type")).to_have_text("tool.started")
        await expect(shown.panel()).to_contain_text("tool_call_id")
        await shown.keys("J")
        await shown.has_hash("x=2", "e=40")
        await shown.keys("K", "k")
        await shown.has_hash("x=2", "e=1")
        await shown.keys("End")
        await expect(shown.chosen().locator(".n")).to_have_text("end")
        await shown.keys("Home", "ArrowDown")
        await shown.has_hash("x=2", "e=2")


async def test_filter_is_counted_stored_in_the_url_and_checked(reading, shared_session):
    async with reading(shared_session) as shown:
        await expect(shown.rows()).to_have_count(7)
        await shown.keys("/")
        await shown.page.keyboard.type("type:tool.*,message.completed")
        await expect(shown.page.locator("#count")).to_have_text("2 / 40")
        assert await shown.texts("n") == ["2", "40"]
        await shown.has_hash("x=2", "q=type:tool.*,message.completed")
        await shown.page.locator("#filter").fill("type:nothing")
        await expect(shown.page.locator("#no-rows")).to_have_text(
            "No rows of this exchange match the filter. Press Esc to clear it."
        )
        [text, below] = [await shown.page.locator(one).bounding_box() for one in ("#no-rows", "#tabs")]
        assert text["y"] + text["height"] <= below["y"]
        await shown.page.locator("#filter").fill("tpe:x")
        await expect(shown.page.locator("#filter-error")).to_have_text(
            "Invalid filter at character 1: unknown field `tpe`; did you mean `type`?"
        )
        await shown.keys("Escape")
        await expect(shown.page.locator("#count")).to_have_text("40 events")
        await expect(shown.page.locator("#filter-error")).to_be_hidden()
        await expect(shown.page.locator("#no-rows")).to_be_hidden()


async def test_rows_of_a_long_stream_are_shown_once_although_the_first_are_read_twice(debugging, builder, message):
    builder.exchange([(1, message("message.completed", id=f"e{n}", sequence=n)) for n in range(2500)])
    async with debugging(builder.close()) as shown:
        await expect(shown.page.locator("#count:not(.reading)")).to_have_text("2,500 events")
        await expect(shown.page.locator("#timeline [role=grid]")).to_have_attribute("aria-rowcount", "2502")


async def test_go_to_dialog_accepts_sequence_event_id_and_location(reading, shared_session):
    async with reading(shared_session) as shown:
        await expect(shown.rows()).to_have_count(7)
        for place, parts in (
            ("3", ["x=2", "e=40"]),
            ("#20", ["x=2", "e=20", "open=e3"]),
            ("21", ["x=2", "e=21", "open=e3"]),
            ("e2", ["x=2", "e=2", "open=e3"]),
            ("3:1", ["x=3", "e=1"]),
        ):
            await shown.keys("g")
            await shown.page.keyboard.type(place)
            await shown.keys("Enter")
            await shown.has_hash(*parts)
            await expect(shown.chosen()).to_have_count(1)
        hint = "Event 40 has sequence 3; enter #3 for event 3"
        await expect(shown.page.locator("#hint")).to_have_text(hint)
        await expect(shown.page.locator("#count:not(.reading)")).to_be_visible()
        await shown.keys("g")
        await shown.page.keyboard.type("99")
        await shown.keys("Enter")
        await expect(shown.page.locator("#place-error")).to_have_text("Exchange 3 has no sequence or event 99.")


async def test_going_to_an_event_of_a_closed_run_opens_the_run_at_the_event(reading, shared_session):
    async with reading(shared_session, "#x=3&tab=state") as shown:
        for place, words in (("2:20", 18), ("2:3", 1)):
            await shown.go("#x=3&tab=state")
            await shown.keys("g")
            await shown.page.keyboard.type(place)
            await shown.keys("Enter")
            await shown.has_hash("x=2", f"e={place[2:]}", "open=e3", "tab=state")
            await expect(shown.chosen().locator(".n")).to_have_text(place[2:])
            await expect(shown.panel().locator(".spoken")).to_have_text("word " * words)
        await shown.go("#x=2&e=20&tab=state")
        await shown.has_hash("x=2", "e=20", "open=e3", "tab=state")
        await expect(shown.panel().locator(".spoken")).to_have_text("word " * 18)
        await shown.keys("ArrowLeft")
        await shown.has_hash("x=2", "e=3", "tab=state")
        await expect(shown.panel().locator(".spoken")).to_have_text("word " * 37)
        await shown.keys("g")
        await shown.page.keyboard.type("#3")
        await shown.keys("Enter")
        await shown.has_hash("x=2", "e=3", "open=e3", "tab=state")
        await expect(shown.panel().locator(".spoken")).to_have_text("word ")


async def test_failures_have_the_colour_of_errors(exporting, builder, message):
    call = {"tool_call_id": "t1"}
    types = ("tool.started", "tool.completed", "tool.failed", "run.failed", "session.error")
    builder.exchange([message(type_, id=type_, sequence=n, content=call) for n, type_ in enumerate(types)])
    async with exporting(builder.close()) as shown:
        await expect(shown.rows()).to_have_count(6)
        colours = await shown.page.evaluate(COLOURS)
        assert [colours[type_] == colours["--error"] for type_ in types] == [False, False, True, True, True]


COLOURS = read_data(__file__, "colours.js")


async def test_runs_of_deltas_open_in_place(reading, shared_session):
    async with reading(shared_session, "#x=2&e=3") as shown:
        await expect(shown.rows()).to_have_count(7)
        await expect(shown.panel()).to_contain_text("word word word")
        await shown.keys("Enter")
        await expect(shown.page.locator("#timeline .list")).to_have_attribute("aria-rowcount", str(7 + 37 + 1))
        await shown.has_hash("x=2", "r=2", "open=e3")
        await shown.keys("j", "j")
        await shown.has_hash("x=2", "e=4", "open=e3")
        await expect(shown.chosen().locator(".what")).to_contain_text("word")
        await expect(shown.panel()).to_contain_text('"word "')
        await shown.keys("ArrowLeft")
        await expect(shown.rows()).to_have_count(7)
        await shown.has_hash("x=2", "e=3")
        await shown.keys("d")
        await expect(shown.page.locator("#timeline .list")).to_have_attribute("aria-rowcount", str(7 + 37 + 1))
        await expect(shown.page.locator("#deltas")).to_have_attribute("aria-pressed", "true")
        await shown.keys("d")
        await expect(shown.rows()).to_have_count(7)


async def test_state_tab_shows_what_the_client_knew(reading, shared_session):
    async with reading(shared_session, "#x=2&e=3&open=e3") as shown:
        await shown.keys("4")
        await expect(shown.panel()).to_contain_text("Last-Event-ID: e2 after sequence 2")
        await expect(shown.panel()).to_contain_text("t1")
        await expect(shown.panel().locator(".channel-state")).to_have_text("running")
        await expect(shown.panel().locator(".spoken")).to_have_text(re.compile("^word $"))


async def test_bytes_tab_shows_bytes_with_offsets(reading, shared_session):
    async with reading(shared_session, "#x=2&e=1") as shown:
        await shown.keys("r")
        line = shown.page.locator("#hex .list-rows .row:visible").first
        await expect(line.locator(".offset")).to_have_text("0")
        await expect(line.locator(".hex")).to_have_text("6576656e743a2072756e2e7374617274")
        await shown.page.set_viewport_size({"width": 500, "height": 700})
        await expect(line.locator(".hex")).to_have_text("6576656e743a2072")
        await expect(line.locator(".text")).to_have_text("event:\u00a0r")
        await expect(shown.panel()).to_contain_text("1 chunk")
        await shown.keys("r")
        await shown.has_hash("x=2", "e=1")


async def test_bytes_tab_shows_the_bytes_of_an_unfinished_message(reading, shared_session):
    async with reading(shared_session, "#x=2&r=5") as shown:
        await expect(shown.chosen().locator(".n")).to_have_text("cut")
        await expect(shown.panel()).to_contain_text(
            "This event is unfinished, so no client received it. The Bytes tab shows"
        )
        await shown.keys("2")
        await expect(shown.panel()).to_contain_text("1 chunk")
        lines = shown.page.locator("#hex .list-rows .row:visible .text")
        await expect(lines).to_have_text(["event:\u00a0run.comp"])


async def test_link_restores_the_view_and_back_returns_to_it(debugging, session):
    async with debugging(session, "#x=2&e=40&q=type:message.*&tab=state") as shown:
        await expect(shown.chosen().locator(".n")).to_have_text("40")
        await expect(shown.page.locator("#filter")).to_have_value("type:message.*")
        await expect(shown.page.locator("#tab-state")).to_have_attribute("aria-selected", "true")
        await shown.go("#x=3&e=1")
        await expect(shown.page.locator("#exchange")).to_contain_text("#3")
        await shown.page.go_back()
        await expect(shown.page.locator("#exchange")).to_contain_text("#2")
        await expect(shown.chosen().locator(".n")).to_have_text("40")


async def test_ids_are_abbreviated_as_in_the_terminal_in_a_narrow_list(debugging, builder, message):
    call = {"tool_call_id": "call_0123456789abcdef"}
    builder.exchange([message("tool.started", id="evt_0123456789abcdef", sequence=1, content=call)])
    path = builder.close()
    async with debugging(path) as shown:
        for width, id_, name in (
            (1590, "evt_0123456789abcdef", "call_0123456789abcdef"),
            (1280, "evt_012…abcdef", "call_01…abcdef"),
            (1100, "evt_012…abcdef", ""),
        ):
            await shown.page.set_viewport_size({"width": width, "height": 700})
            await expect(shown.rows().first.locator(".id")).to_have_text(id_)
            await expect(shown.rows().first.locator(".call")).to_have_text(name)


async def test_connections_are_compared_side_by_side(reading, shared_session):
    async with reading(shared_session, "#x=3") as shown:
        await shown.page.get_by_role("button", name="Compare #2").click()
        await shown.page.get_by_role("button", name="Back to the timeline").click()
        await shown.has_hash("x=3")
        await shown.go("#x=2&e=20")
        await expect(shown.chosen().locator(".n")).to_have_text("20")
        await shown.page.get_by_role("button", name="Compare #3").click()
        pane = shown.page.locator("#resume-pane")
        await expect(pane.locator("h2")).to_contain_text("#2 then #3")
        await expect(pane.locator(".list-head > span")).to_have_text(["status", "cursor", "on #2", "on #3"])
        await expect(pane.locator(".tally li", has_text="0 lost")).to_have_class("dim")
        rows = pane.locator(".list-rows .row:visible")
        await expect(rows.filter(has_text="#2: service reset in mid-event at")).to_have_count(1)
        await shown.has_hash("x=3", "resume=2", "open=e3")
        await shown.keys("j")
        await expect(shown.panel()).to_contain_text("on the first connection up to the cursor")
        total = await shown.page.locator("#count").text_content()
        await shown.keys("Escape")
        await shown.has_hash("x=2", "e=20", "open=e3")
        await expect(shown.chosen().locator(".n")).to_have_text("20")
        await expect(shown.page.locator("#count")).not_to_have_text(total)
        await shown.page.get_by_role("button", name="Compare #3").click()
        await expect(shown.panel()).to_contain_text("on the first connection up to the cursor")
        await expect(shown.page.locator("#count")).to_have_text(total)


async def test_any_two_connections_of_a_session_are_compared(debugging, builder, message):
    for sequence in (1, 2, 3):
        builder.exchange([message("run.started", id=f"e{sequence}", sequence=sequence)])
    builder.exchange(target="/v1/sessions/s2/events/stream")
    async with debugging(builder.close(), "#x=3&resume=2") as shown:
        pane = shown.page.locator("#resume-pane")
        first, second = [pane.get_by_role("combobox", name=f"{name} connection") for name in ("First", "Second")]
        await expect(first.locator("option")).to_have_text(["#1", "#2"])
        await first.focus()
        await first.select_option("1")
        await shown.has_hash("x=3", "resume=1")
        await expect(pane.locator(".list-head > span").nth(2)).to_have_text("on #1")
        await expect(first).to_be_focused()
        await second.select_option("2")
        await shown.has_hash("x=2", "resume=1")
        await expect(pane.locator(".list-head > span").nth(3)).to_have_text("on #2")
        await expect(pane.locator("h2")).to_contain_text("#1 then")


async def test_all_events_that_both_connections_know_are_listed_on_demand(debugging, builder, message):
    events = [(1, message("run.started", id=f"e{n}", sequence=n)) for n in range(1, 7)]
    builder.exchange(events[:5])
    builder.exchange(events[5:], request_headers=(("Last-Event-ID", "e5"),))
    async with debugging(builder.close(), "#x=2&resume=1") as shown:
        status = shown.page.locator("#resume .list-rows .row:visible .status")
        await expect(status).to_have_text([*["· known"] * 3, "", "+ new"])
        await shown.page.get_by_role("button", name="Also list the 2 known before these").click()
        await expect(status).to_have_text([*["· known"] * 5, "", "+ new"])
        await expect(shown.page.get_by_role("button", name="known before")).to_have_count(0)


async def test_tool_calls_are_shown_as_one_row_each(reading, shared_session):
    async with reading(shared_session) as shown:
        await expect(shown.rows()).to_have_count(7)
        await shown.keys("t")
        await expect(shown.page.locator("#tools")).to_have_attribute("aria-pressed", "true")
        row = shown.page.locator("#timeline .row.call:visible")
        await expect(row).to_contain_text("1 event · 0.0 ms · still open")
        await expect(row.locator(".call")).to_have_text("t1")


async def test_help_lists_the_keys_and_returns_the_focus(reading, shared_session):
    async with reading(shared_session) as shown:
        await expect(shown.rows()).to_have_count(7)
        await shown.keys("?")
        await expect(shown.page.get_by_role("dialog")).to_contain_text("copy a link to this view")
        await shown.keys("Escape")
        await expect(shown.page.get_by_role("dialog")).to_have_count(0)
        await expect(shown.page.get_by_role("grid", name="Timeline")).to_be_focused()


async def test_row_tabs_and_time_strip_have_accessible_names(reading, shared_session):
    async with reading(shared_session, "#x=2&e=2") as shown:
        grid = shown.page.get_by_role("grid", name="Timeline")
        await expect(shown.chosen()).to_have_count(1)
        active = await grid.get_attribute("aria-activedescendant")
        await expect(shown.page.locator(f"#{active}")).to_have_attribute("aria-selected", "true")
        assert await shown.page.get_by_role("tab", selected=True).text_content() == "Payload"
        await shown.page.get_by_role("tab", name="Payload").focus()
        await shown.keys("ArrowRight")
        await expect(shown.page.get_by_role("tab", name="Bytes")).to_be_focused()
        await expect(shown.page.get_by_role("tabpanel")).to_have_attribute("aria-labelledby", "tab-bytes")
        strip = shown.page.get_by_role("img", name="Time:")
        await expect(strip).to_have_attribute(
            "aria-label", re.compile("40 events · 1 pause folded, the longest 16.1 s")
        )
        for keys, dialog in (("", ""), ("f", ""), ("c", ""), ("?", "Keys"), ("g", "Go to")):
            await shown.keys("Escape", "Escape", *keys)
            await expect(shown.page.get_by_role("dialog", name=dialog or None)).to_have_count(int(bool(dialog)))
            await shown.check_accessibility_tree()


async def test_filters_are_suggested_while_the_field_is_empty(reading, shared_session):
    async with reading(shared_session) as shown:
        suggestions = shown.page.get_by_role("group", name="Suggested filters")
        await expect(suggestions).to_be_hidden()
        await shown.keys("/")
        await suggestions.get_by_role("button", name="tool calls").click()
        await shown.has_hash("x=2", "q=tool:*")
        await expect(shown.page.locator("#count")).to_have_text("1 / 40")
        await expect(suggestions).to_be_hidden()


async def test_recording_is_saved_in_another_format(reading, shared_session):
    async with reading(shared_session, "#x=2") as shown:
        await shown.keys("E")
        commands = shown.page.locator("#dialog").get_by_role("button", name="copy the command")
        assert await commands.last.get_attribute("title") == (
            f"wiretape export {shared_session} --format sse --exchange 2 --output {shared_session.stem}-2.sse"
        )
        async with shown.page.expect_download() as saving:
            await shown.page.get_by_role("link", name=f"Save {shared_session.stem}.har").click()
        saved = await (await saving.value).path()
        assert len(json.loads(saved.read_bytes())["log"]["entries"]) == 4


async def test_text_filter_searches_the_whole_data(debugging, builder, message):
    builder.exchange([message("run.queued", id=f"e{n}", sequence=n, pad="x" * 1000, last=n) for n in (1, 2, 3)])
    async with debugging(builder.close()) as shown:
        await shown.keys("/")
        await shown.page.keyboard.type('"last\\": 2" kind:message')
        await expect(shown.page.locator("#count")).to_have_text("1 / 3")
        assert await shown.texts("n") == ["2"]


async def test_text_of_a_row_begins_near_a_match(debugging, builder, message):
    builder.exchange([message("run.queued", id="e1", pad="y" * 100, word="needle")])
    async with debugging(builder.close(), "#q=NEEDLE") as shown:
        await expect(shown.rows().locator(".text")).to_have_text(re.compile(r'^…y{10}","word":"needle"'))


async def test_texts_of_the_filter_are_highlighted_in_rows_details_and_strip(debugging, builder, message):
    words = [*["word "] * 200, "The ", "lib", "rary is", " open. "]
    builder.exchange([(50, message("message.delta", delta={"text": word})) for word in words])
    found = """() => [...CSS.highlights.get("match")].map((one) => (
        one.startContainer.data.slice(one.startOffset, one.endOffset)
    ))"""
    async with debugging(builder.close(), "#x=1&e=150&deltas=1") as shown:
        await expect(shown.chosen().locator(".n")).to_have_text("150")
        for text, parts, count in (
            ('"library is open"', ["lib", "rary is", " open"], "3 / 204"),
            ("library open", ["lib", "rary", "open"], "3 / 204"),
        ):
            await shown.page.locator("#filter").fill(text)
            await expect(shown.page.locator("#count")).to_have_text(count)
            await expect(shown.rows().first.locator(".n")).to_have_text("202")
            await shown.page.wait_for_function(f"parts => String(({found})()) === String(parts)", arg=parts)
        await expect(shown.page.locator("#strip .density.others")).to_have_count(1)
        await shown.page.locator("#filter").press("Enter")
        await expect(shown.chosen().locator(".n")).to_have_text("202")
        await expect(shown.panel().locator(".spoken")).to_have_text("library is open. ")
        await shown.page.wait_for_function(f"() => ({found})().includes('library')")
        await shown.keys("Escape")
        await expect(shown.chosen().locator(".n")).to_be_in_viewport()


async def test_exchange_that_is_not_a_stream_shows_both_bodies(debugging, builder):
    body = b'{"words": "%s", "last": true}' % (b"long " * 200)
    json_type = (("content-type", "application/json"),)
    builder.exchange([body], target="/v1/runs", method="POST", body=body[:-1], status=409, headers=json_type)
    async with debugging(builder.close()) as shown:
        await expect(shown.panel().locator(".json-key", has_text="last")).to_have_count(1)
        await expect(shown.panel().locator(".plain-text")).to_contain_text('"last": true')
        await expect(shown.rows().locator(".type")).to_have_text(["POST", "409 complete"])
        await shown.keys("4")
        await expect(shown.panel()).to_contain_text("This exchange is not an event stream.")
        await expect(shown.panel().locator(".json-key", has_text="last")).to_have_count(1)


async def test_link_to_a_missing_exchange_or_event_is_reported(debugging, session):
    async with debugging(session, "#x=99&e=1") as shown:
        await expect(shown.page.get_by_role("alert")).to_have_text("This recording has no exchange 99.")
        await shown.has_hash("x=2")
        await expect(shown.rows()).to_have_count(7)
        await shown.go("#x=2&e=99")
        await expect(shown.page.get_by_role("alert")).to_have_text("Exchange 2 has no event 99.")


async def test_next_finding_keeps_the_tab_across_exchanges(debugging, builder, message):
    numbers = [builder.exchange([message("run.started", id=f"e{n}", sequence=n)]) for n in (1, 2)]
    builder.find(*(finding(1, exchange=n, message=f"Wrong {n}.") for n in numbers))
    async with debugging(builder.close(), "#x=1&tab=bytes") as shown:
        await expect(shown.rows()).to_have_count(2)
        await expect(shown.page.locator("#facts")).to_contain_text("service closed · 1 event")
        await expect(shown.page.locator("#findings-button")).to_have_text("Findings ✕ 2")
        for number in numbers:
            await shown.keys("n")
            await shown.has_hash(f"x={number}", "e=1", "tab=bytes")
            await expect(shown.panel().get_by_role("button", name=f"SEQ001: Wrong {number}.")).to_be_visible()
            await expect(shown.panel().locator(".hex-list")).to_be_visible()
        await shown.panel().get_by_role("button", name="SEQ001").click()
        await shown.has_hash("x=2", "e=1", "tab=findings")


async def test_next_finding_stops_once_at_an_exchange_without_a_stream(debugging, builder):
    for number in (1, 2):
        builder.exchange([b"{}"], target="/v1/runs", method="POST", headers=(("content-type", "application/json"),))
        builder.find(finding(exchange=number, code="ERR001"))
    async with debugging(builder.close(), "#x=1&r=0") as shown:
        await expect(shown.chosen().locator(".type")).to_have_text("POST")
        await shown.keys("n")
        await shown.has_hash("x=1", "r=1")
        await expect(shown.chosen().locator(".type")).to_have_text("200 complete")
        await shown.keys("n")
        await shown.has_hash("x=2", "r=1")


async def test_filter_that_hides_the_selected_event_hides_its_details(reading, shared_session):
    async with reading(shared_session, "#x=2&e=40") as shown:
        await expect(shown.panel()).to_contain_text("word word")
        await shown.page.locator("#filter").fill("type:tool.*")
        await expect(shown.panel()).to_have_text("The filter hides the selected event 40. Clear the filter to show it.")
        await expect(shown.chosen()).to_have_count(0)
        await shown.panel().get_by_role("button", name="Clear the filter").click()
        await expect(shown.panel()).to_contain_text("word word")
        await expect(shown.chosen().locator(".n")).to_have_text("40")


async def test_recording_without_times_has_no_time_axis(debugging, builder, message, monkeypatch):
    monkeypatch.setattr("observation_builder.MS", 0)
    builder.exchange([(0, message("run.started", id=f"e{n}", sequence=n)) for n in range(1, 40)])
    async with debugging(builder.close()) as shown:
        await expect(shown.page.locator("#count")).to_have_text("39 events")
        await expect(shown.page.locator("#strip")).to_be_hidden()


async def test_dragging_on_the_time_strip_selects_no_text(reading, shared_session):
    async with reading(shared_session) as shown:
        box = await shown.page.locator("#strip .strip-svg").bounding_box()
        await shown.page.mouse.move(box["x"] + 5, box["y"] + box["height"] - 5)
        await shown.page.mouse.down()
        await shown.page.mouse.move(box["x"] + box["width"] - 5, box["y"] + box["height"] - 5, steps=3)
        await shown.page.mouse.up()
        assert await shown.page.evaluate("getSelection().toString()") == ""


async def test_nothing_moves_if_reduced_motion_is_preferred(reading, shared_session):
    durations = """() => [...new Set([...document.querySelectorAll("*")].flatMap((node) => {
        const { transitionDuration, animationDuration } = getComputedStyle(node);
        return [transitionDuration, animationDuration];
    }))]"""
    async with reading(shared_session) as shown:
        await expect(shown.rows()).to_have_count(7)
        assert await shown.page.evaluate(durations) == ["0s"]
        await shown.page.emulate_media(reduced_motion="no-preference")
        assert "0.1s, 0.1s" in await shown.page.evaluate(durations)
        await shown.page.emulate_media(reduced_motion="reduce")


async def test_all_parts_can_be_reached_at_200_percent_zoom(reading, shared_session):
    async with reading(shared_session, "#x=2&e=2") as shown:
        # A window of 1280 x 800 pixels has half as many CSS pixels at this zoom.
        await shown.page.set_viewport_size({"width": 640, "height": 400})
        await expect(shown.page.locator("#strip .ticks")).to_have_attribute("width", "640")
        assert await shown.page.evaluate("document.documentElement.scrollWidth") == 640
        for part in ("#exchanges .list", "#filter", "#timeline .list", "#panel", "#findings-button"):
            target = shown.page.locator(part)
            await target.scroll_into_view_if_needed()
            box = await target.bounding_box()
            assert box["height"] > 15
            assert 0 <= box["y"] < 400
