"""The settings of a service: what a file says, and what is said of a file that says it wrong."""

from pathlib import Path

import pytest

from wiretape.contract import LIMITS, OPERATIONS, Limit
from wiretape.errors import InputError
from wiretape_replay.http_server.request import RequestPattern
from wiretape_replay.responses.access_settings import (
    ASSUMED_COUNTS,
    ASSUMED_SCOPES,
    AccessPolicy,
    ApiKey,
    load_access_policy,
)

FULL = """
[[keys]]
key = "alice"
tenant = "acme"
workspace = "ws_1"
scopes = ["events:read"]

[[keys]]
key = "root"

[scopes]
stream = "streams"
cancel = false
"GET /v1/sessions/*" = "sessions:read"

[counts]
"GET /v1/sessions/{id}" = "sessions"
stream = false

[limits]
runs = 5
window-seconds = 10
[limits.tenants.acme]
events = 500

[workspaces]
s9 = "ws_2"
"""


@pytest.fixture
def load(tmp_path):
    def write(text):
        (tmp_path / "service.toml").write_text(text)
        return load_access_policy(tmp_path / "service.toml")

    return write


def needed(rows, method, target):
    return next((value for requests, value in rows if requests.matches(method, target)), None)


def test_everything_that_can_be_set_is_read(load):
    service = load(FULL)
    assert service.authentication
    assert service.keys == {
        "alice": ApiKey("acme", "ws_1", frozenset({"events:read"})),
        "root": ApiKey("default", None, None),
    }
    assert needed(service.scopes, "GET", "/v1/sessions/s1/events/stream?event_deltas=true") == "streams"
    assert needed(service.scopes, "POST", "/v1/sessions/s1/runs/r1/cancel") is None
    assert needed(service.scopes, "POST", "/v1/sessions/s1/runs/r1/resume") == "runs:write"
    assert needed(service.scopes, "GET", "/api/v1/sessions/s1") == "sessions:read"
    assert needed(service.counts, "GET", "/v1/sessions/s1") == "sessions"
    assert needed(service.counts, "GET", "/v1/sessions/s1/events/stream") is None
    assert service.limits == {"sessions": Limit(30, 10), "runs": Limit(5, 10), "events": Limit(120, 10)}
    assert service.tenant_limits == {
        "acme": {"sessions": Limit(30, 10), "runs": Limit(5, 10), "events": Limit(500, 10)}
    }
    assert service.workspaces == {"s9": "ws_2"}


def test_an_empty_file_takes_every_key_and_counts_the_published_limits(load):
    service = load("")
    assert (service.authentication, service.keys, service.limits) == (True, None, LIMITS)


def test_limits_can_be_left_out(load):
    assert load("limits = false").limits == {}


def test_without_a_file_nothing_is_counted_unless_asked_for():
    assert AccessPolicy().limits == {}
    assert AccessPolicy().with_limits().limits == LIMITS
    assert not AccessPolicy().without_keys().authentication


def test_each_of_the_three_limits_has_requests_that_count_towards_it():
    assert set(ASSUMED_COUNTS.values()) == set(LIMITS)
    assert set(OPERATIONS) < set(ASSUMED_COUNTS)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kyes = []", "service.toml, line 1: kyes: there is no such setting, did you mean keys?"),
        ("[[keys]]\nkey = 1", "line 2: keys.key: it has to be a text."),
        ("[[keys]]\nkey = 'a'\n[[keys]]\ntenant = 'b'", "line 3: keys: key is missing."),
        ("[[keys]]\nkey = 'a'\n[[keys]]\nkey = 'a'", "line 4: keys.key: the same key stands above already."),
        ("[[keys]]\nkey = 'a b'", "line 2: keys.key: it has to be of ASCII characters without spaces"),
        ("[[keys]]\nkey = 'a'\nscope = []", "line 3: keys.scope: there is no such setting, did you mean scopes?"),
        ("[[keys]]\nkey = 'a'\nscopes = 'x'", "line 3: keys.scopes: it has to be a list of scopes."),
        ("keys = 3", "line 1: keys: it has to be an array of tables, each under [[keys]]."),
        ("authentication = 'no'", "line 1: authentication: it has to be true or false."),
        (
            "[scopes]\nstrem = 'x'",
            "line 2: scopes.strem: expected stream, cancel, resume or METHOD /path, for example POST",
        ),
        ("[scopes]\nstrem = 'x'", "did you mean stream?"),
        ("[scopes]\nstream = 3", "line 2: scopes.stream: it has to be a text."),
        ("[counts]\nstream = 'event'", "sessions, runs, events, not 'event'; did you mean events?"),
        ("[limits]\nrun = 3", "line 2: limits.run: there is no such limit, did you mean runs?"),
        ("[limits]\nruns = 0", "line 2: limits.runs: it has to be a whole number, 1 or more."),
        ("[limits.tenants.a]\nruns = 'x'", "line 2: limits.tenants.a.runs: it has to be a whole number"),
        ("[limits.tenants.a]\ntenants = {}", "line 2: limits.tenants.a.tenants: there is no such limit"),
        ("limits = 3", "line 1: limits: it has to be a table, with lines like runs = 60."),
        ("[workspaces]\ns1 = 1", "line 2: workspaces.s1: it has to be a text."),
        ("[", "service.toml is not valid TOML"),
    ],
)
def test_a_mistake_is_told_with_file_line_and_key(load, text, said):
    with pytest.raises(InputError) as caught:
        load(text)
    assert said in caught.value.message
    assert "\n" not in caught.value.message


def test_the_file_that_the_documentation_shows_is_good(load):
    page = (Path(__file__).parents[2] / "docs" / "service.md").read_text("utf-8")
    service = load(page.partition("```toml\n")[2].partition("```")[0])
    assert service.keys["alice-key"] == ApiKey("acme", "ws_1", frozenset({"events:read"}))
    assert service.limits == LIMITS
    assert needed(service.counts, "GET", "/v1/sessions/s/runs/r") == "runs"
    for name, scope in ASSUMED_SCOPES.items():
        row = next(line for line in page.splitlines() if line.startswith("| `") and f"`{name}`" in line)
        assert f"| `{scope}` | `{ASSUMED_COUNTS[name]}` |" in row


def test_a_file_that_is_not_there_is_told(tmp_path):
    with pytest.raises(InputError, match=r"There is no file .*nowhere\.toml\."):
        load_access_policy(tmp_path / "nowhere.toml")


@pytest.mark.parametrize("name", ["", "streams", "GET", "GET v1", "get /v1", "GET /v1?x=1", "GET /a b"])
def test_what_names_no_requests_is_refused(name):
    with pytest.raises(ValueError, match="METHOD /path"):
        RequestPattern.of(name)
