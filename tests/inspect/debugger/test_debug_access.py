"""Who may see a recording, and what a browser is told about it."""

import asyncio
import json

import pytest
from aiohttp import ClientSession, CookieJar

from wiretape_inspect.debugging.serving import serve_debugger

STRANGER = "Open the address that `wiretape debug` said when it began: it holds a token."


@pytest.fixture
async def served(session):
    async with serve_debugger(session) as debugger:
        yield debugger


@pytest.fixture
async def stranger(served):
    """One who was shown no token."""
    async with ClientSession(served.url, cookie_jar=CookieJar(unsafe=True)) as found:
        yield found


async def test_the_address_with_the_token_lets_in_and_leaves_it_out_of_the_address_bar(served, stranger):
    async with stranger.get(served.address, allow_redirects=False) as answer:
        assert (answer.status, answer.headers["Location"]) == (303, "/")
        cookie = answer.headers["Set-Cookie"]
    assert served.access.token not in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    async with stranger.get("/api/recording") as answer:
        assert answer.status == 200
    async with stranger.get("/") as answer:
        assert (answer.status, answer.content_type) == (200, "text/html")
        assert served.access.token not in await answer.text()


@pytest.mark.parametrize("query", ["", "?token=", "?token=x", "?token=%ff", "?token=x&token=y"])
async def test_without_the_token_nobody_is_let_in(stranger, query):
    async with stranger.get(f"/{query}") as answer:
        assert (answer.status, await answer.text()) == (401, f"{STRANGER}\n")
        assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("path", ["/api/recording", "/api/rows?exchange=2", "/api/live", "/api/replay/state", "/x"])
async def test_without_the_cookie_nothing_is_told(served, stranger, path):
    name = f"wiretape-{served.url.rpartition(':')[2]}"
    for cookie in ("", f"{name}=", f"{name}=x", f"{name}=\xff", f"other={served.access.cookie}"):
        async with stranger.get(path, headers={"Cookie": cookie}) as answer:
            assert (answer.status, json.loads(await answer.text())) == (401, {"error": {"message": STRANGER}})


@pytest.mark.parametrize("path", ["/", "/api/recording"])
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example", "0.0.0.0", ""])
async def test_other_names_for_this_machine_are_refused(looker, path, host):
    status, said = await looker.error(path, Host=host)

    assert (status, said) == (403, "The debugger answers to loopback names only, such as 127.0.0.1 or localhost.")


_ODD = [
    b"GET /api/recording HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.example\r\n\r\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: \xff\r\n\r\n",
    b"GET http://evil.example/api/recording HTTP/1.1\r\nHost: evil.example\r\n\r\n",
    b"GET /%00?token=%ff&token HTTP/1.1\r\nHost: localhost\r\nCookie: \xff=\xfe; wiretape=\xff\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"CONNECT evil.example:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /api/replay/step HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\r\n\r\n",
    b"nonsense\r\n\r\n",
]


@pytest.mark.parametrize("odd", _ODD)
async def test_what_no_browser_sends_is_refused_without_a_word_on_standard_error(served, odd, caplog, capfd):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rpartition(":")[2]))
    writer.write(odd)
    answer = await reader.readline()
    writer.close()
    await writer.wait_closed()

    assert answer.startswith(b"HTTP/1.")
    assert answer.split()[1] in {b"400", b"401", b"403", b"404", b"405"}
    assert [record.getMessage() for record in caplog.records if record.levelname not in {"DEBUG", "INFO"}] == []
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("origin", ["null", "http://evil.example", "https://127.0.0.1", "http://127.0.0.1:1"])
async def test_pages_of_others_are_refused(looker, origin):
    assert await looker.error("/api/recording", Origin=origin) == (
        403,
        "The debugger serves no pages of other origins.",
    )


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_what_a_browser_fetches_for_others_is_refused(looker, site):
    assert (await looker.error("/api/recording", **{"Sec-Fetch-Site": site}))[0] == 403


async def test_our_own_page_is_served(looker):
    headers = {"Origin": looker.debugger.url, "Sec-Fetch-Site": "same-origin"}

    assert (await looker.get("/api/recording", **headers))[0] == 200


@pytest.mark.parametrize("path", ["/", "/api/recording", "/api/nothing", "/api/live"])
async def test_every_answer_says_that_nobody_else_may_use_or_keep_it(looker, path):
    async with looker.session.get(path) as answer:
        headers = answer.headers
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "PATCH"])
async def test_nothing_but_looking_is_served(looker, method):
    async with looker.session.request(method, "/api/recording", headers={"X-Wiretape-Debug": "1"}) as answer:
        assert answer.status == 405
