"""The fixture `wiretape_service`, in real runs of pytest."""

import pytest
from tables import read_tables

TABLES = read_tables(__file__)

CLIENT = """
import http.client, json
from urllib.parse import urlsplit

def ask(service, method, path, body=None, **headers):
    where = urlsplit(service.url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=45)
    try:
        data = None if body is None else json.dumps(body)
        connection.request(method, path, data, service.headers | headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read()), dict(response.getheaders())
    finally:
        connection.close()

def follow(service, session, cursor=None, advance=5):
    "Read a session until it is idle; the types of its events, and the last cursor."
    where = urlsplit(service.url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=45)
    types = []
    try:
        cursor = {"Last-Event-ID": cursor} if cursor else {}
        connection.request("GET", f"/v1/sessions/{session}/events/stream", headers=service.headers | cursor)
        response = connection.getresponse()
        while line := response.readline():
            if line.startswith(b"data: "):
                event = json.loads(line[6:])
                types.append(event["type"])
                if event["type"] == "session.status_idle":
                    response.readline()
                    service.control.advance(advance)  # a client that leaves at once may not have read the last event
                    return types, event["id"]
    finally:
        response.close()
        connection.close()
"""


@pytest.fixture
def project(project):
    project.file("talk.py", CLIENT)
    return project


def test_correct_clients_pass_and_leave_no_recordings(project):
    result = project.run("""
        from talk import *

        def test_shipped(wiretape_service):
            service = wiretape_service("hello")
            session = ask(service, "POST", "/v1/sessions")[1]["id"]
            assert ask(service, "POST", f"/v1/sessions/{session}/runs")[0] == 201
            assert follow(service, session)[0][-2:] == ["run.completed", "session.status_idle"]
            assert [request.path for request in service.requests][:1] == ["/v1/sessions"]
            assert service.findings == []

        def test_text_and_time(wiretape_service):
            service = wiretape_service('''
                title = "Mine"
                [[run]]
                steps = [{ ask = "tool", deadline = 60 }]
            ''')
            session = ask(service, "POST", "/v1/sessions")[1]["id"]
            run = ask(service, "POST", f"/v1/sessions/{session}/runs")[1]["id"]
            service.control.advance(61)
            assert ask(service, "GET", f"/v1/sessions/{session}/runs/{run}")[1]["status"] == "failed"

        def test_keys(wiretape_service):
            service = wiretape_service(service='''
                [[keys]]
                key = "alice"
                tenant = "acme"
            ''')
            assert service.key == "alice"
            assert ask(service, "POST", "/v1/sessions")[0] == 201
            alike = {"keys": [{"key": "bob", "scopes": ["events:read"]}]}
            assert ask(wiretape_service(service=alike), "POST", "/v1/sessions")[0] == 403

        def test_both(wiretape_service, wiretape_replay):
            assert wiretape_service().url != wiretape_replay("run.db").url
    """)
    result.assert_outcomes(passed=4)
    assert project.kept == []


def test_a_broken_rule_fails_the_test(project):
    result = project.run("""
        from talk import *

        def test_bad(wiretape_service):
            service = wiretape_service("hello")
            session = ask(service, "POST", "/v1/sessions")[1]["id"]
            ask(service, "POST", f"/v1/sessions/{session}/runs")
            follow(service, session)
            follow(service, session)

        def test_allowed(wiretape_service):
            service = wiretape_service("hello", allow=["CLI001"])
            ask(service, "POST", "/v1/sessions", Authorization="")
    """)
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["The client broke rule CLI002 (1 finding)."])
    assert len(project.kept) == 1


def test_a_client_that_retries_too_soon_fails_the_test(project):
    """Virtual time passes for the run only, so it does not count as the client's wait."""
    result = project.run("""
        import time
        from talk import *

        def test_hurry(wiretape_service):
            limit = {"do": "error", "code": "RATE_LIMITED", "retry-after": 2, "operation": "POST /v1/sessions"}
            service = wiretape_service("silence", faults=limit | {"skip": 1, "times": 1})
            session = ask(service, "POST", "/v1/sessions")[1]["id"]
            assert ask(service, "POST", "/v1/sessions")[0] == 429
            ask(service, "POST", f"/v1/sessions/{session}/runs")
            follow(service, session, advance=0)
            time.sleep(0.1)
            assert ask(service, "POST", "/v1/sessions")[0] == 201
    """)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["The client broke rule CLI004 (1 finding).", "*Expected a wait of 2 s*, got 0.? s."])


def test_invalid_arguments_fail_the_test_in_one_sentence(project):
    rows = TABLES["invalid-arguments"]
    tests = (f"def test_{n}(wiretape_service):\n    wiretape_service({row[0]})\n" for n, row in enumerate(rows))
    result = project.run("".join(tests))
    result.assert_outcomes(failed=len(rows))
    assert [message for _, message in rows if message not in result.stdout.str()] == []
    assert "Traceback" not in result.stdout.str()
