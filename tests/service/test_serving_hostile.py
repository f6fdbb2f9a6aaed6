"""Hostile requests: every response is the error envelope, never a traceback or a page."""

import gzip
import itertools
import logging

import aiohttp
import pytest
from tables import read_tables

from wiretape_contracts.agent_sessions import ERROR_CODES
from wiretape_contracts.agent_sessions.stand_in.session_engine import SessionEngine

TABLES = read_tables(__file__)

BODIES = {
    "not JSON": b"hello",
    "two objects": b"{}{}",
    "a list": b"[1, 2]",
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "half a surrogate pair": b'{"a": "\\ud800"}',
    "compressed": gzip.compress(b"{}"),
    "deep and complete": b'{"a":' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "large": b'{"a": "' + b"x" * (4 * 1024 * 1024) + b'"}',
}


async def test_an_invalid_body_is_an_invalid_request(serve):
    async with serve("application-tool", virtual=True, limits=False) as stage:
        session = await stage.session()
        run = await stage.run(session)
        await (await stage.stream(session)).until("agent.custom_tool_use")
        paths = ("/v1/sessions", f"{await stage.session()}/runs", f"{run}/cancel", f"{run}/resume")
        for (name, body), path in itertools.product(BODIES.items(), paths):
            reply = await stage.post(path, data=body)
            assert (reply.status, reply.code) == (400, "invalid_request"), (path, name)
            assert [set(detail) for detail in reply.error["details"]] == [{"path", "reason"}]
        assert (await stage.get(run)).status == 200, "the service still works"


REASONS = {
    b'{"a": "' + b"x" * (4 * 1024 * 1024) + b'"}': "expected 4 MiB or less",
    b'{"a":' + b"[" * 1_024 + b"]" * 1_024 + b"}": "expected JSON: depth limit exceeded: line 1 column ",
    b'{"a": 1e400}': "expected JSON: number is infinity when parsed as double: line 1 column 7",
    b"{}{}": "expected JSON: unexpected content after document: line 1 column 3",
    b"[]": "expected an object",
}


@pytest.mark.parametrize("body", REASONS, ids=REASONS.values())
async def test_the_error_of_an_invalid_body_has_the_reason(serve, body):
    async with serve(virtual=True) as stage:
        reply = await stage.post("/v1/sessions", data=body)
        assert (reply.code, reply.error["details"][0]["path"]) == ("invalid_request", "$")
        assert REASONS[body] in reply.error["message"]


async def test_bodies_at_the_limits_are_accepted(serve):
    async with serve(virtual=True) as stage:
        for body in (b'{"a": 1e308, "b": ' + b"9" * 300 + b"}", b'{"a":' + b"[" * 1_023 + b"]" * 1_023 + b"}"):
            assert (await stage.post("/v1/sessions", data=body)).status == 201


async def test_an_encoded_body_is_refused_whatever_it_contains(serve):
    async with serve(virtual=True) as stage:
        for encoding, body in itertools.product(["foo", "gzip", "identity, br"], [b"{}", b"", gzip.compress(b"{}")]):
            reply = await stage.post("/v1/sessions", data=body, headers={"Content-Encoding": encoding})
            assert (reply.status, reply.code) == (400, "invalid_request")
            assert reply.error["details"][0]["path"] == "Content-Encoding"
        assert (await stage.post("/v1/sessions", headers={"Content-Encoding": "Identity"})).status == 201


async def test_the_state_is_checked_before_an_invalid_body(serve):
    """And the conflict of an idempotency key before both."""
    async with serve("application-tool", virtual=True, limits=False) as stage:
        session = await stage.session(idem="first")
        run = await stage.run(session, idem="second")
        bodies = {name: BODIES[name] for name in ("not JSON", "a list", "UTF-16", "deep and complete")}
        for name, body in bodies.items():
            assert (await stage.post(f"{session}/runs", data=body)).code == "SESSION_BUSY", name
            for path in ("/v1/sessions", f"{session}/runs", f"{run}/cancel", f"{run}/resume"):
                for key in ("first", "second"):
                    assert (await stage.post(path, data=body, idem=key)).code == "idempotency_conflict", (path, name)
        assert (await stage.post(f"{run}/cancel")).status == 200
        for name, body in {**bodies, "nothing": b""}.items():
            assert (await stage.post(f"{run}/resume", data=body)).code == "run_not_resumable", name
            assert (await stage.post(f"{run}/cancel", data=body)).code == "RUN_NOT_CANCELLABLE", name


VALUES = [None, True, 0, -1, 1e300, 2**70, "", "x" * 10_000, [], [[]], {}, {"a": {}}, "\u0000", "\u202e</script>"]


async def test_values_of_wrong_types_are_refused_or_accepted_without_errors(serve):
    async with serve("application-tool", virtual=True, limits=False) as stage:
        session = await stage.session()
        run = await stage.run(session)
        bodies = {
            "/v1/sessions": ["workspace_id"],
            f"{session}/runs": ["input", "sandbox", "tools"],
            f"{run}/resume": ["tool_call_id", "output", "error", "input"],
        }
        fields = [(path, name) for path, names in bodies.items() for name in names]
        for value, (path, name) in itertools.product(VALUES, fields):
            reply = await stage.post(path, {name: value})
            assert reply.status in {200, 201} or reply.code in ERROR_CODES, (path, name, value)
        for value in VALUES:
            tools = {"tools": [{"name": value, "input_schema": value, "output_schema": value}]}
            reply = await stage.post(f"{await stage.session()}/runs", tools)
            assert reply.status == 201 or reply.code in ERROR_CODES, value


IDS = ["%00", "..", "%2F", "%ff", "a" * 2_000, "%0d%0aX:%20y", "{x}"]


async def test_hostile_ids_are_not_found(serve):
    async with serve(virtual=True, limits=False) as stage:
        session = await stage.session()
        lines = (
            "GET /v1/sessions/{}",
            "GET /v1/sessions/{}/events/stream",
            "POST /v1/sessions/{}/runs",
            f"POST {session}/runs/{{}}/cancel",
            f"POST {session}/runs/{{}}/resume",
            f"GET {session}/runs/{{}}",
        )
        for line, hostile in itertools.product(lines, IDS):
            reply = await stage.raw(_request(line.format(hostile)))
            assert (reply.status, reply.code) == (404, "resource_not_found"), line


LINES = TABLES["lines"]


async def test_unknown_paths_and_methods_get_the_envelope(serve):
    async with serve(virtual=True, limits=False) as stage:
        for line, status in LINES.items():
            reply = await stage.raw(_request(line))
            code = {404: "resource_not_found", 400: "invalid_request"}[status]
            assert (reply.status, reply.code) == (status, code), line
            assert not {"server", "date"} & reply.headers.keys()
            assert reply.headers.get("allow") in ({"GET", "POST"} if status == 400 else {None}), line


async def test_the_error_of_an_unknown_method_lists_the_methods_of_the_path(serve):
    async with serve(virtual=True) as stage:
        for path in ("/nothing", "*", "/_wiretape/state", "/v1/sessions/x/runs/y/z"):
            reply = await stage.raw(_request(f"FOO {path}"))
            assert (reply.status, reply.error["message"]) == (400, "Unknown method FOO."), path
            assert "allow" not in reply.headers
        reply = await stage.raw(_request("FOO /v1/sessions?secret"))
        assert reply.error["message"] == "Unknown method FOO; /v1/sessions allows POST."


async def test_the_responses_to_a_preflight_and_to_head_have_no_body(serve):
    async with serve(virtual=True) as stage:
        asked = "Origin: http://page.test\r\nAccess-Control-Request-Method: POST\r\n"
        reply = await stage.raw(_request("OPTIONS /v1/sessions", asked))
        assert (reply.status, reply.body, reply.headers["allow"]) == (200, b"", "POST")
        assert not [name for name in reply.headers if name.startswith("access-control")]
        assert (await stage.raw(_request("OPTIONS /v1/nowhere", asked))).status == 404
        reply = await stage.raw(_request("HEAD /v1/sessions"))
        assert (reply.status, reply.body) == (400, b"")


STRANGE = {
    "not HTTP": b"hello\r\n\r\n",
    "TLS": bytes.fromhex("16030100a5010000a10303") + b"x" * 60 + b"\r\n\r\n",
    "a header without a name": b"GET / HTTP/1.1\r\n: x\r\n\r\n",
    "a line that is too long": b"GET /" + b"a" * 300_000 + b" HTTP/1.1\r\n\r\n",
    "an invalid length": b"POST /v1/sessions HTTP/1.1\r\nContent-Length: x\r\n\r\n",
    "length and chunks": b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n{}",
    "an expectation": b"POST / HTTP/1.1\r\nConnection: close\r\nExpect: magic\r\nContent-Length: 0\r\n\r\n",
}


async def test_data_that_is_not_http_gets_the_envelope(serve):
    async with serve(virtual=True) as stage:
        for name, data in STRANGE.items():
            reply = await stage.raw(data)
            assert (reply.status, reply.code) == (400, "invalid_request"), name
            assert reply.error["request_id"]


async def test_invalid_chunks_only_end_the_connection(serve):
    """The request is incomplete, so it gets no response."""
    async with serve(virtual=True) as stage:
        head = _request("POST /v1/sessions", "Transfer-Encoding: chunked\r\n")
        answer = await _bytes(stage, head + b"zz\r\n{}\r\n0\r\n\r\n")
        assert b"<html" not in answer.lower()
        assert b"Traceback" not in answer
        assert (await stage.post("/v1/sessions")).status == 201


async def _bytes(stage, data):
    try:
        return (await stage.raw(data)).body
    except (IndexError, ValueError):
        return b""  # no response


KEYS = ["", "Bearer", "Basic d2lyZXRhcGU=", "Bearer no", "Bearer wiretape-key x", "wiretape-key"]


async def test_an_invalid_key_is_refused_on_every_path(serve):
    async with serve(virtual=True) as stage:
        session = await stage.session()
        requests = (("POST", "/v1/sessions"), ("GET", f"{session}/events/stream"), ("GET", "/nothing"))
        for value, (method, path) in itertools.product(KEYS, requests):
            reply = await stage.ask(method, path, key=None, headers={"Authorization": value})
            assert (reply.status, reply.code) == (401, "authentication_required"), value


async def test_invalid_parameters_cursors_and_idempotency_keys_are_refused(serve):
    """A cursor of another session is invalid, too."""
    async with serve(virtual=True) as stage:
        session, other = await stage.session(), await stage.session()
        for value in ("maybe", "", "true,false", "true&event_deltas=true", "false&event%5Fdeltas=true"):
            reply = await stage.get(f"{session}/events/stream?event_deltas={value}")
            assert (reply.status, reply.code) == (400, "invalid_request"), value
            assert reply.error["details"][0]["path"] == "event_deltas"
        await stage.run(other)
        foreign = (await stage.follow(other))[0]["id"]
        for sent in ("x", "evt_", "\xff\xfe", "a" * 5_000, foreign):
            reply = await stage.get(f"{session}/events/stream", headers={"Last-Event-ID": sent})
            assert (reply.status, reply.code) == (400, "invalid_cursor")
        for key in ("", "k" * 256):
            reply = await stage.post("/v1/sessions", headers={"Idempotency-Key": key})
            assert (reply.status, reply.code) == (400, "invalid_request")
        for line, name in ((f"GET {session}/events/stream", "Last-Event-ID"), ("POST /v1/sessions", "Idempotency-Key")):
            reply = await stage.raw(_request(line, f"{name}: a\r\n{name}: b\r\n"))
            assert (reply.status, reply.error["details"][0]["path"]) == (400, name), "it is repeated"


def _request(line, more=""):
    head = f"{line} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer wiretape-key\r\nConnection: close\r\n{more}\r\n"
    return head.encode("latin-1")


async def test_ids_in_paths_can_be_percent_encoded_and_targets_can_have_an_origin(serve):
    async with serve(virtual=True) as stage:
        path = (await stage.session()).replace("_", "%5F")
        for origin in ("", "http://service.test"):
            assert (await stage.raw(_request(f"GET {origin}{path}"))).status == 200


async def test_a_long_path_is_fast_and_is_not_another_path(serve):
    async with serve() as stage:
        reply = await stage.ask("GET", "/v1/sessions/" + "a" * 7000)
        assert reply.code == "resource_not_found"
        reply = await stage.ask("GET", "/v1/sessions/1a://b")
        assert (reply.code, "session 1." in reply.body.decode()) == ("resource_not_found", False)


async def test_an_internal_error_ends_the_connection_and_the_service_continues(serve, monkeypatch, caplog):
    def fail(*_command):
        raise RuntimeError("in the middle")

    async with serve("application-tool", virtual=True, checked=False) as stage:
        session = await stage.session()
        run = await stage.run(session)
        stream = await stage.stream(session)
        asked = (await stream.until("agent.custom_tool_use"))[-1]["content"]
        result = {"tool_call_id": asked["tool_call_id"], "error": "no"}
        with monkeypatch.context() as broken:
            broken.setattr(SessionEngine, "execute", fail)
            with pytest.raises(aiohttp.ServerDisconnectedError):
                await stage.post(f"{run}/resume", result, idem="key")
        assert (await stage.post(f"{run}/resume", result, idem="key")).status == 200, "the key was not used"
        await stream.until("session.status_idle")
        stream.close()
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == [
        "Internal error while handling a request: RuntimeError: in the middle"
    ]
    caplog.clear()
