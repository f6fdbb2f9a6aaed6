"""docs/redaction.md: a secret is planted in each place that it lists, and searched for in every byte written."""

import gzip
import re
import tempfile
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes

import pytest
from ahocorasick_rs import BytesAhoCorasick
from invoke import invoke

from wiretape.checker import Settings
from wiretape.credential_names import CREDENTIAL_HEADERS, CREDENTIAL_PARAMETERS
from wiretape.observations import (
    BytesArrived,
    Ending,
    ExchangeEnded,
    Headers,
    Observation,
    RequestEnded,
    RequestStarted,
    ResponseStarted,
    Side,
)
from wiretape.recording import RedactionPolicy, Writer, open_recording
from wiretape_proxy.recording_follower import RecordingFollower
from wiretape_replay.http_server.http_messages import HttpRequest, read_body
from wiretape_replay.http_server.request_redaction import request_label
from wiretape_replay.verbatim.exchange_queues import ExchangeQueues, RecordedRequest
from wiretape_replay.verbatim.no_match import explain_no_match
from wiretape_replay.verbatim.request_matching import Matching

PAGE = Path(__file__).parents[2] / "docs" / "redaction.md"
STREAM = (("Content-Type", "text/event-stream"),)
JSON = (("Content-Type", "application/json"),)
ESCAPED = 'quote"slash/plus+äöü'
REPORTS = ("text", "concise", "json", "ndjson", "junit", "github", "sarif", "markdown", "html")


@dataclass(frozen=True)
class Plant:
    """An exchange."""

    target: str = "/v1/sessions/s1"
    headers: Headers = ()
    sent: tuple[bytes, ...] = ()
    """Chunks of the request's body."""
    response: Headers = JSON
    received: tuple[bytes, ...] = (b"{}",)
    reason: str = "OK"
    authority: str = "service"
    detail: str = ""

    def observations(self, exchange: int, now_ns: int) -> Iterator[Observation]:
        yield RequestStarted(
            exchange, now_ns, "127.0.0.1", "POST", "http", self.authority, self.target, "HTTP/1.1", self.headers
        )
        yield from _chunks(exchange, Side.REQUEST, self.sent, now_ns + 10)
        yield RequestEnded(exchange, now_ns + 100)
        yield ResponseStarted(exchange, now_ns + 110, 200, self.reason, "HTTP/1.1", self.response)
        yield from _chunks(exchange, Side.RESPONSE, self.received, now_ns + 120)
        ending = Ending.CLIENT_CLOSED if self.detail else Ending.COMPLETE
        yield ExchangeEnded(exchange, now_ns + 1000, ending, self.detail)


def _chunks(exchange: int, side: Side, chunks: Iterable[bytes], now_ns: int) -> Iterator[BytesArrived]:
    start = 0
    for number, chunk in enumerate(chunks):
        yield BytesArrived(exchange, side, start, chunk, (start + len(chunk),), (now_ns + number,))
        start += len(chunk)


def bearer(key: str) -> Headers:
    return (("Authorization", f"Bearer {key}"),)


def echo(key: str) -> tuple[bytes]:
    return (f'{{"error": {{"message": "invalid: {key}, {key}"}}}}'.encode(),)


def event(text: str) -> bytes:
    return f'id: evt_1\nevent: message.delta\ndata: {{"id": "evt_1", "text": "{text}"}}\n\n'.encode()


def in_headers(names: Iterable[str], key: str) -> list[Plant]:
    """The key in one of the headers each time, of the request and of the response."""
    pairs = [(name.title(), key) for name in names]
    return [Plant(headers=(pair,), response=(*JSON, pair), received=echo(key)) for pair in pairs]


def in_urls(key: str) -> list[Plant]:
    url = f"https://service/callback?state=1&code={key}#access_token={key}"
    headers = (
        ("Referer", url),
        ("Location", url),
        ("X-Original-URL", f"/v1;token={key}/x"),
        ("Link", f"<{url}>; rel=a"),
    )
    return [Plant(headers=headers, response=(*JSON, *headers), received=echo(key))]


def in_lists_of_urls(key: str) -> list[Plant]:
    url = f"https://service/callback?state=1&code={key}"
    values = (
        f"<{url}>; rel=a",
        f"</v1;token={key}>",
        f"default-src 'self'; report-uri {url}; object-src 'none'",
        f"{url}, /",
    )
    headers = [("Link", value) for value in values]
    return [Plant(headers=(each,), response=(*JSON, each), received=echo(key)) for each in headers]


def short(key: str) -> str:
    return f"{key[:6]}z"


def short_in_heads(key: str) -> list[Plant]:
    text = short(key)
    response = (*JSON, ("X", text))
    return [
        Plant(f"/v1/{text}/x", headers, response=response, reason=f"No {text}", detail=f"It sent {text}.")
        for headers in (bearer(text), (("Referer", f"//u:{text}@x/?pwd={text}"),))
    ]


def in_userinfo(key: str) -> list[Plant]:
    url = f"http://user:{key}@service/v1"
    return [
        Plant(authority=f"user:{key}@service", received=echo(key)),
        Plant(target=url, headers=(("Location", url), ("Host", f"//{key}@service"))),
        Plant(headers=(("Referer", f"https://{key}@service/"),), received=echo(key)),
    ]


def in_nested_urls(key: str) -> list[Plant]:
    url = f"https://service/?token={key}&x=1"
    nested = [url, f"https://user:{key}@service/", f"token={key}&x=1", f"/a?b=/c?token={key}"]
    all_encoded = "".join(f"%{ord(letter):02x}" for letter in url)
    nested += [quote(text, safe="") for text in (*nested, all_encoded)]
    targets = [f"/v1?x=1&redirect={text}&y=1" for text in (*nested, *map(quote, nested))]
    five_times = quote(quote(quote(quote(quote(url)))))
    targets += [f"/v1/proxy/{quote(url, safe='')}/x", f"/v1?a#b={five_times}"]
    link = (("Link", f"<https://service/?next={quote(url, safe='')}>; rel=next"),)
    return [
        *(Plant(target=target, received=echo(key)) for target in targets),
        Plant(headers=link, response=(*JSON, *link), received=echo(key)),
        Plant(target=f"/v1?a={quote(five_times)}"),
    ]


def in_basic(key: str) -> list[Plant]:
    pairs = [b64encode(text.encode()).decode() for text in (f"user:{key}", f"us:{key}", f"{key}:", key, f"{key}:x")]
    pairs.append(pairs[0].rstrip("="))
    return [Plant(headers=(("Authorization", f"Basic {pair}"),), received=echo(key)) for pair in pairs]


def repeated_in_heads(key: str) -> list[Plant]:
    odd = (("X-Before", f"<{key}>"), *bearer(key), ("X-After", key), (f"X-{key[:3]}", key))
    return [Plant(target=f"/v1/{key}/x?page={key}", headers=odd, response=(*JSON, ("X", key)), reason=f"No {key}")]


def encoded_in_heads(key: str) -> list[Plant]:
    encoded = "".join(f"%{ord(letter):02x}" for letter in key)
    target = f"/v1/a{encoded}/x?page=1&other={encoded[:30]}{key[10:]};c"
    padded = f"?other=1{encoded}==&page={key[:3]}%{ord(key[3]):02x}{key[4:]}/=x y"
    return [
        Plant(target=target, headers=(*bearer(key), ("Referer", f"http://service/x?y={encoded}"))),
        Plant(target=f"/v1/x{padded}", headers=(*bearer(f"1{key}=="), ("X-API-Key", f"{key}/=x y"))),
    ]


def in_streams(key: str) -> list[Plant]:
    stream = (event(f"the key {key}"), b": keep-alive\n\n", event(key))
    return [
        Plant(headers=bearer(key), sent=echo(key), received=echo(key)),
        Plant(headers=bearer(key), response=STREAM, received=stream),
        Plant(headers=(("Sec-WebSocket-Protocol", f"v1.json, {key}"),), received=echo(key)),
        *in_headers(CREDENTIAL_HEADERS, f"2{key}"),
        *(Plant(headers=((name, f"{scheme}{key}"),), received=echo(key)) for name, scheme in SCHEMES),
    ]


SCHEMES = (("authorization", "Basic "), ("AUTHORIZATION", "token\t"), ("proxy-authorization", "own-scheme "))


def in_signatures(key: str) -> list[Plant]:
    scope = "Credential=AKIA/20260101/eu/s3/aws4_request, SignedHeaders=host"
    digest = 'username="u", realm="r", nonce="n", uri="/v1", response='
    return [
        Plant(headers=(("Authorization", f"AWS4-HMAC-SHA256 {scope}, Signature={key}"),), received=echo(key)),
        Plant(headers=(("Authorization", f'Digest {digest}"1{key}"'),), received=echo(f"1{key}")),
    ]


def in_cookies(key: str) -> list[Plant]:
    return [
        Plant(headers=(("Cookie", f"a=b; sid={key}; c=d"),), received=echo(key)),
        Plant(response=(*JSON, ("Set-Cookie", f'sid="{key}"; Path=/; HttpOnly')), received=echo(key)),
    ]


def split(key: str) -> list[Plant]:
    text = echo(key)[0]
    return [Plant(headers=bearer(key), sent=split_text(text, 5), received=split_text(text, 1))]


def escaped(key: str) -> list[Plant]:
    whole = f"{ESCAPED}{key}"
    in_header = whole.encode().decode("latin-1")
    in_json = whole.replace('"', '\\"').replace("/", "\\/")
    return [
        Plant(headers=bearer(in_header), received=echo(in_json)),
        Plant(
            headers=bearer(in_header),
            sent=(f"token={quote(whole, safe='')}&x=1".encode(),),
            received=(quote(whole).lower().encode(),),
        ),
        Plant(target=f"/v1?token={quote(whole)}", received=echo(in_json)),
    ]


def escaped_in_parts(key: str) -> list[Plant]:
    codes = {
        letter: (
            rf"\u{ord(letter):04x}",
            rf"\\u{ord(letter):04X}",
            f"%{ord(letter):02x}",
            f"%25{ord(letter):02X}",
            rf"%5Cu{ord(letter):04x}",
            rf"\u0025{ord(letter):02x}",
            letter,
        )
        for letter in f"&<{key}"
    }
    secret = f"&<{key}"
    texts = ["".join(codes[letter][way] for letter in secret) for way in range(6)]
    texts += ["".join(codes[letter][at % 7] for at, letter in enumerate(secret)), quote(texts[0], safe="")]
    texts.append(f"\\u0026\\u003c{key}")
    return [Plant(headers=bearer(secret), sent=echo(text), received=split_text(echo(text)[0], 7)) for text in texts]


def quote_all(text: str | bytes) -> bytes:
    """Percent-encode every character."""
    return b"".join(b"%%%02x" % byte for byte in (text.encode() if isinstance(text, str) else text))


def split_text(text: bytes, size: int) -> tuple[bytes, ...]:
    return tuple(text[at : at + size] for at in range(0, len(text), size))


def cut(key: str) -> list[Plant]:
    beginning = f"the key {key[:-2]}".encode()
    return [Plant(headers=bearer(key), sent=(beginning,), received=(beginning[:-1],), detail="The client left.")]


def parameters(names: Iterable[str], key: str) -> list[Plant]:
    return [Plant(target=f"/v1?page=2&{name}={key}&x=1") for name in names]


OTHER_SPELLINGS = ("api%5Fkey", "apiKey", "API-KEY", "filter[token]", "filter%5Btoken%5D", "a.token", "token[]")

REMOVED: dict[str, Callable[[str], list[Plant]]] = {
    "the headers `Authorization` and `Proxy-Authorization`": lambda key: in_headers(CREDENTIAL_HEADERS[:2], key),
    "the headers `Anthropic-API-Key`": lambda key: in_headers(CREDENTIAL_HEADERS[2:], key),
    "the headers `Cookie` and `Set-Cookie`": in_cookies,
    "a header of this kind with a space before the colon": lambda key: [
        Plant(headers=(("Authorization ", f"Bearer {key}"), ("Cookie\t", f"a={key}")), received=echo(key))
    ],
    "a parameter of the request target with one of the names below": lambda key: parameters(CREDENTIAL_PARAMETERS, key),
    "a parameter whose name is spelled in another way": lambda key: parameters(OTHER_SPELLINGS, key),
    "a parameter after a semicolon, in the path or the query": lambda key: [
        Plant(target=f"/v1;token={key}/x?page=1;token={key}"),
        Plant(target=f"/v1;x=1;token={key}?page=1"),
        Plant(target=f"/v1?token=a;{key}&b=c"),
    ],
    "a parameter of a URL in any other header, such as `Location` or `Referer`": in_urls,
    "a parameter of a URL or query within a URL, percent-encoded up to five times": in_nested_urls,
    "a parameter of one of several URLs in a header, such as `Link` or `Content-Security-Policy`": in_lists_of_urls,
    "user name and password of a URL, in the target, the authority, the upstream or a header": in_userinfo,
    "a secret of another place in this table, repeated anywhere in a head": repeated_in_heads,
    "a secret of another place, percent-encoded in a target or header": encoded_in_heads,
    (
        "a credential, parameter or password of 4 to 7 characters, repeated as a word in a head or ending of the same "
        "exchange"
    ): short_in_heads,
    "a secret of another place in the detail of an ending": lambda key: [
        Plant(headers=bearer(key), detail=f"The client sent {key}.")
    ],
    "a secret of another place in a request that a replay does not find": lambda key: [
        Plant(target=f"/v1;token={key}/{key}?token={key}&x={key}", sent=(b'{"x": "%b"}' % key.encode(),))
    ],
    "a credential of a header, repeated in a request body, a response or an event stream": in_streams,
    "the `Signature=` of a credential, repeated without the rest of the credential": in_signatures,
    "the value of a cookie, repeated without its name": in_cookies,
    "the value of a parameter, or the password of a URL, repeated": lambda key: [
        Plant(target=f"/v1?token={key}", sent=echo(key), response=STREAM, received=(event(key),)),
        Plant(headers=(("Referer", f"http://u:p{key}@service/"),), received=echo(f"p{key}")),
    ],
    (
        "the password in a `Basic` credential, or its user name if the password is shorter than 8 characters, repeated"
    ): in_basic,
    "a repeated secret that is split between chunks": split,
    "a repeated secret that is escaped as in JSON, or percent-encoded": escaped,
    (
        r"a repeated secret with some or all characters escaped, also twice: `\u0053`, `\\u0053`, `%53`, `%2553`, "
        r"`%5Cu0053`, `\u002553`"
    ): escaped_in_parts,
    (
        "a repeated secret after bytes that look like the beginning of an escape, such as `%2` before a secret that "
        "begins with `e`"
    ): lambda key: [Plant(headers=bearer(f"e{key}"), received=echo(rf"%2e\u{ord(key[0]):04x}{key[1:]}"))],
    "the beginning of a secret where a body ends or breaks off, from 4 characters on": cut,
}
IN_JSON = '{"user": {"pin": "%s", "pins": [1, true]}, "kept": "%s"}'


def json_bodies(key: str) -> list[Plant]:
    text = (IN_JSON % (key, "kept-in-json")).encode()
    stream = b"id: 1\nevent: x\ndata: %b\n\n: comment\n\ndata: [DONE]\n\n" % text.replace(b", ", b",\ndata: ")
    return [
        Plant(sent=(text[:30], text[30:]), received=tuple(text[at : at + 1] for at in range(len(text)))),
        Plant(response=STREAM, received=(stream[:50], stream[50:70], stream[70:])),
    ]


def unusual_json(key: str) -> list[Plant]:
    text = IN_JSON % (key, "kept")
    stream = f"data: {text}\n\n".encode()
    encoded = [text.encode(codec) for codec in ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32")]
    return [Plant(sent=(each,), received=split_text(each, 9)) for each in (*encoded, stream)]


def broken_json(key: str) -> list[Plant]:
    text = (IN_JSON % (key, "")).encode()
    unreadable = text.replace(b"true", b"NaN")
    return [
        Plant(sent=(text[:-20],), received=(unreadable,)),
        Plant(response=STREAM, received=(b"data: %b\n\ndata: %b" % (unreadable, text[:-20]),)),
        Plant(response=(*JSON, ("Content-Encoding", "rot13")), received=(text,)),
    ]


WITH_OPTIONS: dict[str, Callable[[str], list[Plant]]] = {
    "a header of `--redact-header NAME`": lambda key: in_headers(["X-Tenant-Key"], key),
    "a parameter of `--redact-query NAME`": lambda key: parameters(["ticket", "Tic-Ket"], key),
    "a value that `--redact-body PATH` selects": json_bodies,
    (
        "a value that `--redact-body PATH` selects in UTF-16 or UTF-32, after a byte order mark, or in any event stream"
    ): unusual_json,
    "a value that `--redact-body PATH` might select in a body that is compressed, cut off or unreadable": broken_json,
}
KEPT: dict[str, Callable[[str], list[Plant]]] = {
    "a secret of fewer than 8 characters, repeated in a body": lambda key: [
        Plant(headers=bearer(key[:7]), received=echo(key[:7]))
    ],
    "a cookie of fewer than 8 characters, or another secret of fewer than 4, repeated in a head": lambda key: [
        Plant(headers=(("Cookie", f"a={key[:7]}"), ("X-Echo", key[:7]))),
        Plant(headers=(*bearer(key[:3]), ("X-Echo", key[:3]))),
    ],
    "a secret of fewer than 8 characters, repeated in another exchange": lambda key: [
        Plant(headers=bearer(key[:7])),
        Plant(f"/v1/{key[:7]}"),
    ],
    "the parameters `session` and `session_id`": lambda key: [
        Plant(f"/v1?session={key}&session_id={key}", received=echo(key))
    ],
    "the user name of a `Basic` credential with a password of 8 characters or more, repeated": lambda key: [
        Plant(
            headers=(("Authorization", f"Basic {b64encode(f'{key}:12345678'.encode()).decode()}"),), received=echo(key)
        )
    ],
    "a name of a member in an object that `--redact-body PATH` selects": lambda key: [
        Plant(received=(b'{"pins": {"%b": 1}}' % key.encode(),))
    ],
    "a compressed body that repeats a secret": lambda key: [
        Plant(
            headers=bearer(key),
            response=(*JSON, ("Content-Encoding", "gzip")),
            received=(gzip.compress(echo(key)[0], mtime=0),),
        )
    ],
    "a repeated secret in base64, or in another encoding, such as `&amp;` for `&`": lambda key: [
        Plant(headers=bearer(key), received=(b64encode(key.encode()),)),
        Plant(headers=bearer(f"&{key}"), received=(b"&amp;%b" % key.encode(),)),
    ],
    (
        "a repeated secret with several `\\` or `%` that are spelled in several ways at once, or with escapes that are "
        "escaped as a whole, such as `%25%35%33` for `S`"
    ): lambda key: [
        Plant(headers=bearer(f"%%\\{key}"), received=(rb"\u0025%25%5C%5C%5C%5C%5C" + quote_all(quote_all(key)),)),
        Plant(headers=bearer(key), received=(quote_all(quote_all(key)),)),
    ],
    "a repeated secret that is split between events": lambda key: [
        Plant(headers=bearer(key), response=STREAM, received=(event(key[:14]), event(key[14:])))
    ],
    "one of the three parts of a JSON Web Token, repeated alone": lambda key: [
        Plant(headers=bearer(f"header.payload.{key}"), received=echo(key))
    ],
    "a body that contains a secret before any head does, such as the response to a login": lambda key: [
        Plant(received=echo(key)),
        Plant(headers=bearer(key)),
    ],
}


def key_of(place: str, number: int) -> str:
    return sha256(f"{place} {number}".encode()).hexdigest()[:28]


def plants(place: str) -> list[Plant]:
    """The exchanges of a place, each with its own key, so that none is remembered from another one."""
    plant = {**REMOVED, **WITH_OPTIONS, **KEPT}[place]
    return [plant(key_of(place, number))[number] for number in range(len(plant(key_of(place, 0))))]


def record(path: Path, places: Iterable[str], policy: RedactionPolicy) -> dict[str, bytes]:
    """Record the places; return the log, and what is in the folder before the recording is closed."""
    password = key_of("user name and password of a URL, in the target, the authority, the upstream or a header", 0)
    writer = Writer.create(path, upstream=f"http://user:{password}@service", policy=policy)
    exchange = 0
    for place in places:
        for each in plants(place):
            exchange += 1
            writer.feed(each.observations(exchange, writer.last_ns + 10))
            writer.commit()
    files = {f"during {name.name}": name.read_bytes() for name in path.parent.iterdir()}
    messages: list[object] = []
    RecordingFollower(writer.tables, Settings(), messages.append).catch_up()
    log = "\n".join(message.text for message in messages).encode()
    writer.close(writer.last_ns + 1)
    assert f"during {path.name}-wal" in files
    return {**files, f"log of {path.name}": log}


def not_found(place: str) -> str:
    """What a replay tells about requests that it does not find."""
    recorded = RecordedRequest(1, "POST", "/v1?ticket=[redacted:0123456789abcdef]", read_body([b'{"x": "y"}']))
    queues = ExchangeQueues([recorded], Matching(headers=("x-tenant-key", "authorization")))
    requests = [HttpRequest("POST", plant.target, read_body(plant.sent), plant.headers) for plant in plants(place)]
    messages = [explain_no_match(queues, each, lambda _: recorded.body) for each in requests]
    return "\n".join((*map(request_label, requests), *messages))


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """Everything that recording all places, exporting and reporting has written."""
    folder, temporary = tmp_path_factory.mktemp("run"), tmp_path_factory.mktemp("temporary")
    path, other = folder / "run.db", folder / "options.db"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", str(temporary))
        patch.setenv("TMPDIR", str(temporary))
        everything = record(path, [*REMOVED, *KEPT], RedactionPolicy())
        everything |= record(
            other, WITH_OPTIONS, RedactionPolicy(("X-Tenant-Key",), ("ticket",), ("$..pin", "$..pins"))
        )
        commands = [
            *(("report", path, "--format", name) for name in REPORTS),
            *(("export", path, "--format", name) for name in ("tape", "har", "events", "html")),
            ("export", path, "--format", "har", "--with-sensitive"),
            ("show", path),
            ("show", path, "--json"),
            ("channels", path, "--json"),
            ("trim", path, "--until", "1h", "--output", folder / "trimmed.db"),
            ("export", path, "--format", "har", "--output", folder / "run.har"),
            ("import", folder / "run.har", "--output", folder / "imported.db"),
            ("report", other, "--format", "json"),
            *(("export", other, "--format", name) for name in ("har", "html")),
        ]
        for command in commands:
            done = invoke(*command)
            assert done.exit_code < 2, done.output
            everything[f"wiretape {' '.join(map(str, command))}"] = done.output.encode()
        everything["replay"] = "\n".join(not_found(place) for place in [*REMOVED, *WITH_OPTIONS]).encode()
        return everything | {name.name: name.read_bytes() for name in (*folder.iterdir(), *temporary.iterdir())}


def test_a_removed_secret_is_in_nothing_that_is_written(written: dict[str, bytes]) -> None:
    """Neither half of it is, and no text that percent-decodes to it."""
    parts = {
        part.encode(): f"{place} {number}"
        for place in (*REMOVED, *WITH_OPTIONS)
        for number in range(len(plants(place)))
        for key in [key_of(place, number)]
        for part in ([short(key)] if "4 to 7" in place else [key[:13], key[10:-2]])
    }
    finder = BytesAhoCorasick(list(parts))
    for name, data in written.items():
        for text in (data, unquote_to_bytes(data)):
            found = finder.find_matches_as_indexes(text)
            shown = [(name, list(parts.values())[part], text[max(0, at - 80) : end]) for part, at, end in found[:9]]
            assert shown == []


@pytest.mark.parametrize("place", KEPT)
def test_what_is_kept_is_kept(place: str, written: dict[str, bytes], tmp_path: Path) -> None:
    """The page does not promise less than it could."""
    (tmp_path / "run.db").write_bytes(written["run.db"])
    with open_recording(tmp_path / "run.db") as recording:
        requests = [exchange.request for exchange in recording.exchanges()]
        stored = [
            b"".join(
                run.data for run in recording.body(exchange.number, Side.RESPONSE) if isinstance(run, BytesArrived)
            )
            for exchange in recording.exchanges()
        ]
    for plant in plants(place):
        assert b"".join(plant.received) in stored
        assert plant.target in [request.target for request in requests]
        echoes = {pair for request in requests for pair in request.headers if pair[0] == "X-Echo"}
        assert echoes.issuperset(pair for pair in plant.headers if pair[0] == "X-Echo")


def test_the_page_lists_the_places_tested_here() -> None:
    """Each row has a test."""
    rows = re.findall(r"^\| (.+?) \|", PAGE.read_text(), re.MULTILINE)
    rows = [row.partition(", `API-Key`")[0] for row in rows if row != "Where a secret is"]
    assert rows == [*REMOVED, *WITH_OPTIONS, *KEPT]


def test_the_page_lists_every_name() -> None:
    """Headers and parameters."""
    listed = {name.lower() for name in re.findall(r"`([\w-]+)`", PAGE.read_text())}
    assert listed.issuperset((*CREDENTIAL_HEADERS, *CREDENTIAL_PARAMETERS, "cookie", "set-cookie"))


def test_other_parts_of_heads_are_kept(written: dict[str, bytes], tmp_path: Path) -> None:
    """What is around a secret stays."""
    (tmp_path / "run.db").write_bytes(written["run.db"])
    fingerprint = r"\[redacted:[0-9a-f]{16}\]"
    with open_recording(tmp_path / "run.db") as recording:
        requests = [exchange.request for exchange in recording.exchanges()]
        upstream = recording.info.upstream
    heads = "\n".join(f"{each.target} {each.authority} {dict(each.headers)}" for each in requests)
    for expected in (
        rf"/v1\?page=2&api%5Fkey={fingerprint}&x=1 ",
        rf"/v1;token={fingerprint}/x\?page=1;token={fingerprint} ",
        rf"'Bearer {fingerprint}'",
        rf"AWS4-HMAC-SHA256 {fingerprint}",
        rf"/v1/{fingerprint}/x\?page={fingerprint} ",
        rf"'X-Before': '<{fingerprint}>'",
        rf"https://service/callback\?state=1&code={fingerprint}#access_token={fingerprint}",
        r" \*{8}@service ",
    ):
        assert re.search(expected, heads), expected
    assert upstream == "http://********@service"


def test_redact_body_keeps_the_rest_of_a_text(written: dict[str, bytes], tmp_path: Path) -> None:
    """Length and form of JSON and events stay."""
    (tmp_path / "run.db").write_bytes(written["options.db"])
    expected = (IN_JSON % ("*" * 28, "kept-in-json")).encode().replace(b"[1, true]", b"[0, null]")
    with open_recording(tmp_path / "run.db") as recording:
        bodies = {
            b"".join(run.data for run in recording.body(exchange.number, side))
            for exchange in recording.exchanges()
            for side in Side
        }
    assert expected in bodies
    events = b"".join(body for body in bodies if b"comment" in body)
    assert events.endswith(b"\n\n: comment\n\ndata: [DONE]\n\n")
    assert b'data: "kept": "kept-in-json"}' in events
