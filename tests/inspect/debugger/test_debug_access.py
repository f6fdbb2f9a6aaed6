"""Access control of the debugger, and the security headers of its responses."""

import asyncio
import json

import pytest
from aiohttp import ClientSession, CookieJar

from wiretape_inspect.debugger.debugger_server import serve_debugger

NO_TOKEN = "Open the URL that `wiretape debug` printed: it contains the access token."


@pytest.fixture
async def served(session):
    async with serve_debugger(session) as debugger:
        yield debugger


@pytest.fixture
async def outsider(served):
    """A client without the token."""
    async with ClientSession(served.url, cookie_jar=CookieJar(unsafe=True)) as found:
        yield found


async def test_url_with_token_sets_a_cookie_and_redirects_to_a_url_without_it(served, outsider):
    async with outsider.get(served.address, allow_redirects=False) as response:
        assert (response.status, response.headers["Location"]) == (303, "/")
        cookie = response.headers["Set-Cookie"]
    assert served.access.token not in cookie
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    async with outsider.get("/api/recording") as response:
        assert response.status == 200
    async with outsider.get("/") as response:
        assert (response.status, response.content_type) == (200, "text/html")
        assert served.access.token not in await response.text()


@pytest.mark.parametrize("query", ["", "?token=", "?token=x", "?token=%ff", "?token=x&token=y"])
async def test_page_without_token_is_refused(outsider, query):
    async with outsider.get(f"/{query}") as response:
        assert (response.status, await response.text()) == (401, f"{NO_TOKEN}\n")
        assert "Set-Cookie" not in response.headers


@pytest.mark.parametrize("path", ["/api/recording", "/api/rows?exchange=2", "/api/live", "/api/replay/state", "/x"])
async def test_api_without_cookie_is_refused(served, outsider, path):
    name = f"wiretape-{served.url.rpartition(':')[2]}"
    for cookie in ("", f"{name}=", f"{name}=x", f"{name}=\xff", f"other={served.access.cookie}"):
        async with outsider.get(path, headers={"Cookie": cookie}) as response:
            assert (response.status, json.loads(await response.text())) == (401, {"error": {"message": NO_TOKEN}})


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
async def test_malformed_request_is_refused_and_nothing_is_logged(served, odd, caplog, capfd):
    reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rpartition(":")[2]))
    writer.write(odd)
    response = await reader.readline()
    writer.close()
    await writer.wait_closed()
    assert response.startswith(b"HTTP/1.")
    assert response.split()[1] in {b"400", b"401", b"403", b"404", b"405"}
    assert [record.getMessage() for record in caplog.records if record.levelname not in {"DEBUG", "INFO"}] == []
    assert capfd.readouterr().err == ""


NO_HOST = "The debugger responds only to loopback host names, such as 127.0.0.1 or localhost."
NO_ORIGIN = "The debugger does not serve pages of other origins."
OTHERS = [
    *((path, "Host", host, NO_HOST) for path in ("/", "/api/recording") for host in ("evil.example", "0.0.0.0", "")),
    *(("/", "Host", host, NO_HOST) for host in ("127.0.0.1.evil.example", "localhost@evil.example")),
    *(("/", "Origin", each, NO_ORIGIN) for each in ("null", "http://evil.example", "https://127.0.0.1")),
    *(("/api/recording", "Origin", f"http://127.0.0.1{port}", NO_ORIGIN) for port in ("", ":1")),
    *(("/api/recording", "Sec-Fetch-Site", site, NO_ORIGIN) for site in ("cross-site", "same-site")),
]


@pytest.mark.parametrize(("path", "header", "value", "message"), OTHERS)
async def test_request_of_another_site_is_refused(client, path, header, value, message):
    assert await client.error(path, **{header: value}) == (403, message)


async def test_fetch_from_the_page_itself_is_served(client):
    headers = {"Origin": client.debugger.url, "Sec-Fetch-Site": "same-origin"}
    assert (await client.get("/api/recording", **headers))[0] == 200


@pytest.mark.parametrize("path", ["/", "/api/recording", "/api/nothing", "/api/live"])
async def test_every_response_forbids_caching_framing_and_use_by_other_sites(client, path):
    async with client.session.get(path) as response:
        headers = response.headers
        assert headers["Cache-Control"] == "no-store"
        assert headers["Referrer-Policy"] == "no-referrer"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "PATCH"])
async def test_api_accepts_only_get(client, method):
    async with client.session.request(method, "/api/recording", headers={"X-Wiretape-Debug": "1"}) as response:
        assert response.status == 405
