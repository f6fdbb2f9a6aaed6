"""Playwright's routeFromHAR, in Chromium, with our HAR files, as docs/javascript.md describes it."""

from click.testing import CliRunner
from playwright.async_api import async_playwright
from programs import find_program

from wiretape.cli import wiretape

TAPE = """\
tape: 1
upstream: http://service.test
---
request: POST /v1/sessions
response: 201
response-headers: {Content-Type: application/json}
response-body: {id: ses_1}
---
request: GET /v1/sessions/ses_1/events/stream
events:
- data: {id: evt_1, sequence: 1, type: run.started}
- data: {type: message.delta, text: café}
- data: {id: evt_2, sequence: 2, type: run.completed}
"""
CLIENT = """async () => {
    const headers = {Authorization: "Bearer key"};
    const created = await fetch("http://service.test/v1/sessions", {method: "POST", headers});
    const {id} = await created.json();
    const url = `http://service.test/v1/sessions/${id}/events/stream`;
    const source = new EventSource(url);
    const events = [];
    await new Promise(done => {
        for (const type of ["run.started", "message.delta", "run.completed"])
            source.addEventListener(type, ({data, lastEventId}) => {
                events.push([type, lastEventId, JSON.parse(data).text ?? null]);
                if (type === "run.completed") done();
            });
    });
    source.close();
    const fetched = await (await fetch(url, {headers})).text();
    const missing = await fetch("http://service.test/v1/other").then(() => "answered", () => "aborted");
    return {status: created.status, events, fetched, missing};
}"""


async def test_chromium_gets_the_recorded_responses_from_the_har_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.tape").write_text(TAPE, "utf-8")
    done = CliRunner().invoke(wiretape, ["export", "run.tape", "--format", "har", "--output", "run.har"])
    assert done.exit_code == 0, done.output

    executable = find_program("chromium")
    async with async_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = await playwright.chromium.launch(executable_path=executable, args=flags)
        context = await browser.new_context()
        await context.route_from_har("run.har", url="**/v1/**", not_found="abort")
        await context.route("http://app.test/", lambda route: route.fulfill(body="<title>app</title>"))
        page = await context.new_page()
        await page.goto("http://app.test/")
        result = await page.evaluate(CLIENT)
        await browser.close()

    assert result["status"] == 201
    assert result["events"] == [
        ["run.started", "evt_1", None],
        ["message.delta", "evt_1", "café"],
        ["run.completed", "evt_2", None],
    ]
    sse = CliRunner().invoke(wiretape, ["export", "run.tape", "--format", "sse", "--exchange", "2"])
    assert result["fetched"] == sse.stdout
    assert result["missing"] == "aborted"
