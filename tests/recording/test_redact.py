"""No secret reaches the disk, wherever it stands and however it is cut."""

import tempfile
import tracemalloc
from base64 import b64encode
from collections.abc import Iterable
from itertools import cycle, pairwise
from pathlib import Path

import pytest
from for_each import for_each
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from observation_builder import ObservationBuilder
from tables import read_tables

from wiretape.credential_names import is_parameter
from wiretape.observations import BytesArrived, RequestStarted, ResponseStarted, Side
from wiretape.recording import Redactor, Writer, open_recording
from wiretape.recording.body_redaction import BodyRedaction, BodyRedactor
from wiretape.recording.secret_finder import SHORTEST

TABLES = read_tables(__file__)

KEY = "sk-live-0123456789abcdef"
AUTHORIZED = (("Authorization", f"Bearer {KEY}"), ("Cookie", "sid=verysecret"), ("Accept", "*/*"))


def on_disk(path: Path) -> bytes:
    return b"".join(name.read_bytes() for name in path.parent.iterdir())


def knowing(*secrets: str) -> Redactor:
    """Return a redactor that has seen these secrets in a head."""
    redactor = Redactor(b"salt")
    headers = tuple(("X-API-Key", secret) for secret in secrets)
    redactor.redact_request(RequestStarted(1, 1, "", "GET", "http", "service", "/", "HTTP/1.1", headers))
    return redactor


def test_the_same_secret_has_the_same_fingerprint_within_a_recording_and_another_in_others(tmp_path) -> None:
    stored = []
    for name in ("a.db", "b.db"):
        writer = Writer.create(tmp_path / name, upstream="http://service")
        talk = ObservationBuilder(writer.began_ns)
        for headers in (AUTHORIZED, AUTHORIZED, (("authorization", "Bearer another-key-9999"),)):
            writer.feed([talk.ask("/v1/x?api_key=inquery123&page=2", headers), talk.end()])
        writer.close(talk.tick())
        with open_recording(tmp_path / name) as recording:
            requests = [exchange.request for exchange in recording.exchanges()]
            assert recording.info.redacted == 3 + 2 + 3
        stored += [request.headers[0][1] for request in requests]
        assert requests[0].headers[2] == AUTHORIZED[2]
        assert requests[0].target.startswith("/v1/x?api_key=[redacted:")
        assert requests[0].target.endswith("]&page=2")
    assert all(value.startswith("Bearer [redacted:") for value in stored)
    assert (stored[0], stored[3]) == (stored[1], stored[4])
    assert len(set(stored)) == 4


def test_secrets_that_a_body_repeats_are_counted() -> None:
    redactor = knowing(KEY)
    before = redactor.count
    assert len(redactor.find_secrets(f"{KEY} and {KEY}".encode())) == redactor.count - before == 2


@given(cuts=st.lists(st.integers(1, 80), max_size=4), commits=st.lists(st.booleans(), min_size=6, max_size=6))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_key_that_comes_back_in_a_body_is_overwritten(cuts: list[int], commits: list[bool]) -> None:
    """Offsets stay, and no cut between chunks or commits lets the key through."""
    body = f"id: {KEY}\ndata: the key {KEY} is not valid, {KEY}!\n\ndata: {KEY[:3]}".encode()
    places = sorted({0, len(body), *[cut for cut in cuts if cut < len(body)]})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.db")
        writer = Writer.create(path, upstream="http://service")
        talk = ObservationBuilder(writer.began_ns)
        writer.feed([talk.ask(headers=AUTHORIZED), talk.answer()])
        for (begin, end), commit in zip(pairwise(places), commits, strict=False):
            writer.feed([talk.send(body[begin:end])])
            if commit:
                writer.commit()
                while writer.derive():
                    pass
        writer.feed([talk.end()])
        writer.close(talk.tick())
        with open_recording(path) as recording:
            stored = b"".join(run.data for run in recording.body(1, Side.RESPONSE))
            derived = b"".join(seen.frame.raw for seen in recording.frames(1))
        assert stored == body.replace(KEY.encode(), b"*" * len(KEY)), "what only begins like it is kept"
        assert derived == stored
        assert KEY[:12].encode() not in on_disk(path), "not a part of it, in no table"


@for_each(
    ("value", "is_redacted"),
    [
        ("own-scheme secret-1234", True),
        ("", False),
        ("Bearer ", False),
        ("Bearer", True),
        ("Basic dTpw", True),
        ("no-scheme-key-1", True),
    ],
)
def test_unusual_credentials_are_redacted_unless_they_are_empty(value, is_redacted) -> None:
    """A value without a scheme is a credential as a whole, even if it is the word Bearer."""
    request = ObservationBuilder().ask(headers=(("Authorization", value),))
    ((_, stored),) = Redactor(b"salt").redact_request(request).headers
    assert ("redacted" in stored) is is_redacted


@pytest.mark.parametrize("value", ["Bearer [redacted:0123456789abcdef]", "own-scheme [redacted:0123456789abcdef]"])
def test_a_redacted_credential_stays_as_it_is(value: str) -> None:
    """Copies of a recording, even of one that an earlier version made, keep its fingerprints."""
    headers = (("Authorization", value), ("X-API-Key", value.partition(" ")[2]), ("Cookie", value.partition(" ")[2]))
    request = RequestStarted(1, 1, "", "GET", "http", "service", f"/?token={headers[1][1]}", "HTTP/1.1", headers)
    redactor = Redactor(b"salt")
    assert redactor.redact_request(request) == request
    assert redactor.count == 0


def test_fingerprints_and_empty_parameters_are_not_secrets() -> None:
    """Even if a credential is a word of a fingerprint."""
    headers = (("Authorization", "Bearer redacted"), ("X-Word", "redacted"))
    request = RequestStarted(1, 1, "", "GET", "http", "service", "/?token=&key=redacted#", "HTTP/1.1", headers)
    redactor = Redactor(b"salt")
    fingerprint = redactor.fingerprint("redacted")
    redacted = redactor.redact_request(request)
    assert redacted.headers == (("Authorization", f"Bearer {fingerprint}"), ("X-Word", fingerprint))
    assert redacted.target == f"/?token=&key={redactor.fingerprint('redacted#')}"


def test_the_end_of_a_secret_stays_overwritten_if_it_may_be_the_beginning_of_another_one() -> None:
    """A client can choose a credential that ends like those of others begin."""
    redactor = knowing("user is sk-liv", "sk-live-0123")
    for after, expected in ((b"e-0123.", b"The ********************."), (b"e-9876.", b"The **************e-9876.")):
        assert redact_in_pieces(redactor, b"The user is sk-liv" + after, [18]) == expected


def test_held_bytes_are_returned_once_or_released_at_the_end_of_all_exchanges() -> None:
    redactor = knowing("sk-live-0123")
    bodies = BodyRedactor(redactor)
    for exchange in (1, 2):
        run = bodies.redact(BytesArrived(exchange, Side.RESPONSE, 100, b"a sk-l", (106,), (2,)))
        assert run == BytesArrived(exchange, Side.RESPONSE, 100, b"a ", [102], (2,))
    released = bodies.close(50)
    assert released == [
        BytesArrived(exchange, Side.RESPONSE, 102, b"****", (106,), (50 + exchange,)) for exchange in (1, 2)
    ]
    assert bodies.close(60) == []


@for_each("cut", range(1, 60))
def test_a_stream_with_secrets_of_digits_and_field_names_stays_readable(cut: int) -> None:
    """Also if a secret begins with a field name."""
    redactor = Redactor(b"salt")
    cookies = "a=12345678; b=retry: 12345; c=event: tool"
    redactor.redact_request(ObservationBuilder().ask(headers=(("Cookie", cookies),)))
    bodies = BodyRedactor(redactor)
    bodies.begin(ResponseStarted(1, 1, 200, "OK", "HTTP/1.1", (("Content-Type", "text/event-stream"),)))
    body = b"event: tool\nretry: 12345\r\n" + b'data: {"n": 12345678, "text": "event: tool"}\n\n'
    runs = [
        bodies.redact(BytesArrived(1, Side.RESPONSE, start, body[start:end], (end,), (2,)))
        for start, end in pairwise([0, cut, len(body)])
    ]
    stored = b"".join(run.data for run in runs if run)
    assert stored == b"event: ****\nretry: 11111\r\n" + b'data: {"n": 11111111, "text": "***********"}\n\n'


def test_chosen_names_of_parameters_replace_the_usual_ones() -> None:
    assert is_parameter("filter[my-Key]", ("my_key",))
    assert not is_parameter("token", ("my_key",))


@pytest.mark.parametrize(("levels", "is_replaced"), [(3, False), (10, True)])
def test_parameters_that_are_nested_too_deeply_are_replaced(levels: int, is_replaced: bool) -> None:
    target = f"/v1?a={'b=' * levels}c"
    redacted = Redactor(b"salt").redact_request(ObservationBuilder().ask(target)).target
    assert ("[redacted:" in redacted) is is_replaced
    assert is_replaced or redacted == target


def test_only_the_secret_parameters_of_a_credential_are_searched_for() -> None:
    """The realm of a service may be a word of every body."""
    redactor = Redactor(b"salt")
    value = 'Digest realm="Our-service", response="0123456789abcdef", token="abcdef0123456789"'
    redactor.redact_request(ObservationBuilder().ask(headers=(("Authorization", value),)))
    body = b"Our-service 0123456789abcdef abcdef0123456789"
    assert redactor.find_secrets(body) == [(12, 28), (29, 45)]


@for_each(("secret", "spelling"), [row[:2] for row in TABLES["spellings"]])
def test_a_secret_is_found_as_other_languages_spell_it(secret, spelling) -> None:
    redactor = knowing(secret)
    assert redactor.find_secrets(f'"{spelling}"'.encode()) == [(1, 1 + len(spelling))]


SPELLINGS = {
    "as it is": lambda byte: b"%c" % byte,
    "percent code": lambda byte: b"%%%02x" % byte,
    "percent code, twice, upper case": lambda byte: b"%%25%02X" % byte,
    "JSON code": lambda byte: rb"\u%04x" % byte,
    "JSON code, upper case": lambda byte: rb"\u%04X" % byte,
    "JSON code in JSON": lambda byte: rb"\\u%04x" % byte,
    "JSON code in a URL": lambda byte: b"%%5Cu%04x" % byte,
    "percent code in JSON": lambda byte: rb"\u0025%02x" % byte,
}
HARD = 'sk&<p/>"q+1='
BEFORE = ["%", "\\", "\\\\", "2", "25", "%2", "%25", "\\u", "\\u0", "\\ud83d", "%5C", "e", "x"]
"""Beginnings of escapes, of which a secret may seem to be the end."""


@given(
    before=st.lists(st.sampled_from(BEFORE), max_size=3).map("".join),
    secret=st.text([*HARD, *"e2u05n"], min_size=SHORTEST, max_size=12) | st.just(HARD),
    ways=st.lists(st.sampled_from([*SPELLINGS]), min_size=1, max_size=12),
    cuts=st.sets(st.integers(1, 120), max_size=8),
    others=st.sampled_from([0, 20]),
)
@example(before="%2", secret="e1234567", ways=["as it is", "JSON code"], cuts={7}, others=0)
@example(before="%2", secret="e1234567", ways=["as it is", "JSON code in a URL"], cuts={7, 8}, others=0)
@example(before="%", secret="2e005555", ways=["JSON code", "as it is"], cuts=set(), others=0)
@example(before="\\", secret="u005e2en", ways=["as it is"] * 6 + ["percent code"], cuts={11}, others=0)
@example(before="\\\\" * 5, secret=KEY, ways=["JSON code in JSON"], cuts={15}, others=0)
@example(before="\\\\" * 2, secret=HARD, ways=["percent code in JSON"], cuts=set(), others=0)
@example(before="\\" * 9, secret=HARD, ways=["percent code in JSON"], cuts={3}, others=0)
def test_a_secret_that_is_escaped_in_parts_is_overwritten_however_it_is_cut(before, secret, ways, cuts, others) -> None:
    """Whatever is before it; nothing after it is."""
    redactor = knowing(*(f"other-key-{number}" for number in range(others)), secret)
    spelled = b"".join(SPELLINGS[way](byte) for way, byte in zip(cycle(ways), secret.encode(), strict=False))
    begin = rb"say \u0073k or %73, " + before.encode()
    body = begin + spelled + b" or sk%26"
    stored = redact_in_pieces(redactor, body, [])
    assert stored.startswith(rb"say \u0073k or %73, ")
    assert set(stored[len(begin) :]) - set(b"*1") == set(b" or sk%26")
    assert stored.endswith(b" or sk%26")
    assert redact_in_pieces(redactor, body, sorted(cuts)) == stored
    assert redact_in_pieces(redactor, body, range(1, len(body))) == stored


def redact_in_pieces(redactor: Redactor, body: bytes, cuts: Iterable[int]) -> bytes:
    redaction = BodyRedaction(redactor)
    pieces = [redaction.feed(body[start:end]) for start, end in pairwise([0, *cuts, len(body)])]
    return b"".join((*pieces, redaction.close()))


@for_each(
    ("end", "is_kept"),
    [(rb"\u00", True), (b"50%", True), (b"%25", True), (rb"\u0073k", True), (rb"\u0073k%2dl\u00", False)],
)
def test_of_the_beginning_of_a_secret_at_the_end_of_a_body_four_characters_are_overwritten(end: bytes, is_kept) -> None:
    """However it is spelled, and with a part of an escape after it, which alone is kept."""
    stored = redact_in_pieces(knowing(KEY), b"The " + end, [])
    assert stored == b"The " + (end if is_kept else b"*" * len(end))


@pytest.mark.parametrize("escape", [rb"\u0041", b"%41", rb"\/", rb"\\", b"{%41"])
def test_a_body_of_escapes_takes_little_memory(escape) -> None:
    redactor = knowing('AbcA/\\"%defghi')
    body = escape * 60_000
    tracemalloc.start()
    try:
        assert not redactor.find_secrets(body)
        assert tracemalloc.get_traced_memory()[1] < 12_000_000
    finally:
        tracemalloc.stop()


S1, S2 = "first-secret", "second-secret"


@for_each("value", TABLES["headers"])
def test_what_follows_a_url_in_a_header_is_no_part_of_its_secret(value: str) -> None:
    redactor = Redactor(b"salt")
    request = ObservationBuilder().ask(headers=(("X-Link", value.format(S1)),))
    ((_, stored),) = redactor.redact_request(request).headers
    assert stored == value.format(redactor.fingerprint(S1)).replace(S2, redactor.fingerprint(S2))
    assert redactor.find_secrets(S1.encode()) == [(0, len(S1))]


def test_a_quoted_parameter_of_a_header_is_replaced_as_a_whole() -> None:
    redactor = Redactor(b"salt")
    ((_, stored),) = redactor.redact_request(ObservationBuilder().ask(headers=(("X", 'a;token="b c, d"; e'),))).headers
    assert stored == f'a;token="{redactor.fingerprint("b c, d")}"; e'


def test_a_short_secret_is_replaced_in_the_heads_of_its_exchange() -> None:
    """Where it is a word."""
    redactor, talk = Redactor(b"salt"), ObservationBuilder()
    headers = (("Authorization", "Bearer sh0rt7"), ("X-Key", "(sh0rt7), sh0rt77, %73h0rt7"), ("Cookie", "a=dark"))
    request = redactor.redact_request(talk.ask("/v1/sh0rt7/xsh0rt7/dark", headers))
    mark = redactor.fingerprint("sh0rt7")
    assert request.target == f"/v1/{mark}/xsh0rt7/dark"
    assert request.headers[:2] == (("Authorization", f"Bearer {mark}"), ("X-Key", f"({mark}), sh0rt77, {mark}"))
    response = ResponseStarted(request.exchange, 9, 401, "No sh0rt7", "HTTP/1.1", (("X-Echo", "sh0rt7"),))
    redacted = redactor.redact_response(response)
    assert (redacted.reason, redacted.headers) == (f"No {mark}", (("X-Echo", mark),))
    assert redactor.mask_text("It sent sh0rt7.", request.exchange) == f"It sent {mark}."
    assert redactor.mask_text("It sent sh0rt7.", request.exchange + 1) == "It sent sh0rt7."
    assert redactor.count == 8


def test_the_number_of_short_secrets_is_bounded() -> None:
    """In one exchange, and of exchanges that remember some."""
    redactor, talk = Redactor(b"salt"), ObservationBuilder()
    for _ in range(1100):
        redactor.redact_request(talk.ask("/v1?" + "&".join(f"token=ab{number}" for number in range(10, 20))))
    redactor.redact_request(talk.ask("/v1?" + "&".join(f"token=a{number}" for number in range(100, 1000))))
    assert max(map(len, redactor._words.values())) == 100
    assert len(redactor._words) == 1000


@pytest.mark.parametrize(
    ("credential", "found"),
    [("key-as-user-name:x", [(0, 16)]), ("key-as-user-name:", [(0, 16)]), ("user-name:password", [(17, 25)])],
)
def test_a_user_name_is_found_if_its_password_is_not_the_secret(credential: str, found) -> None:
    redactor = Redactor(b"salt")
    basic = b64encode(credential.encode()).decode()
    redactor.redact_request(ObservationBuilder().ask(headers=(("Authorization", f"Basic {basic}"),)))
    assert redactor.find_secrets(b"key-as-user-name password user-name") == found


@for_each(
    "value", ["a" * 500_000 + "/%25", "," * 500_000 + "%25", "&" + "a" * 500_000 + "%3D", "@" + "//a:b" * 100_000]
)
def test_a_long_header_without_urls_takes_few_steps(value: str) -> None:
    """Quadratic time would be minutes."""
    request = ObservationBuilder().ask(headers=(("X-Long", value),))
    assert Redactor(b"salt").redact_request(request) == request


def test_a_parameter_of_a_form_is_found_with_its_spaces() -> None:
    redactor = Redactor(b"salt")
    redactor.redact_request(ObservationBuilder().ask("/v1?password=correct+horse%21"))
    assert redactor.find_secrets(b"correct horse!") == [(0, 14)]


@pytest.mark.parametrize("target", ["/v1?a=" + "b" * 500_000, "/v1?a" + "=b" * 250_000, "/v1?a=" + ";b" * 250_000])
def test_a_long_parameter_takes_little_memory(target) -> None:
    request = ObservationBuilder().ask(target)
    tracemalloc.start()
    try:
        Redactor(b"salt").redact_request(request)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()


def test_only_short_headers_are_kept_in_memory() -> None:
    """Most requests repeat them; a client may send a new long one each time."""
    redactor = Redactor(b"salt")
    redactor.redact_request(ObservationBuilder().ask("/v1", headers=(("Accept", "text/plain"), ("X-Long", "x" * 2000))))
    assert ("Accept", "text/plain") in redactor._headers
    assert max(len(value) for _, value in redactor._headers) < 2000
