"""Settings of authentication and rate limits: what a file sets, and the error messages for mistakes in it."""

from pathlib import Path

import pytest
from for_each import for_each
from service_contracts import SERVICE
from tables import read_data, read_tables

from wiretape.contract import load_contract
from wiretape.contract.service_terms import Limit
from wiretape.errors import InputError
from wiretape_replay.access.access_settings import AccessPolicy, ApiKey
from wiretape_replay.http_server.http_messages import RequestPattern
from wiretape_replay.replayed_contracts import ReplayedContracts
from wiretape_replay.server_options import ReplayOptions

TABLES = read_tables(__file__)

LIMITS = {"sessions": Limit(30, 60), "runs": Limit(60, 60), "events": Limit(120, 60)}
ANY_STREAM = ReplayedContracts([load_contract("sse")])
FULL = read_data(__file__, "every_setting.toml")


@pytest.fixture
def load(tmp_path):
    def write(text, contracts=SERVICE):
        (tmp_path / "service.toml").write_text(text)
        return ReplayOptions(service=tmp_path / "service.toml").access_policy(contracts, recorded_keys=True)

    return write


def first_match(rows, method, target):
    operation = SERVICE.describe(method, target).operation_name
    return next((value for pattern, value in rows if pattern.matches(method, target, operation)), None)


def test_a_file_can_set_everything(load):
    policy = load(FULL)
    assert policy.authentication
    assert policy.keys == {
        "alice": ApiKey("acme", "ws_1", frozenset({"events:read"})),
        "root": ApiKey("default", None, None),
    }
    assert first_match(policy.scopes, "GET", "/v1/sessions/s1/events/stream?event_deltas=true") == "streams"
    assert first_match(policy.scopes, "POST", "/v1/sessions/s1/runs/r1/cancel") is None
    assert first_match(policy.scopes, "POST", "/v1/sessions/s1/runs/r1/resume") == "runs:write"
    assert first_match(policy.scopes, "GET", "/api/v1/sessions/s1") == "sessions:read"
    assert first_match(policy.counts, "GET", "/v1/sessions/s1") == "sessions"
    assert first_match(policy.counts, "GET", "/v1/sessions/s1/events/stream") is None
    assert policy.limits == {"sessions": Limit(30, 10), "runs": Limit(5, 10), "events": Limit(120, 10)}
    assert policy.tenant_limits == {"acme": {"sessions": Limit(30, 10), "runs": Limit(5, 10), "events": Limit(500, 10)}}
    assert policy.workspaces == {"s9": "ws_2"}


def test_an_empty_file_accepts_every_key_and_applies_the_published_limits(load):
    policy = load("")
    assert (policy.authentication, policy.keys, policy.limits) == (True, None, LIMITS)
    assert load("limits = false").limits == {}


def test_without_a_file_no_limits_apply_by_default():
    assert AccessPolicy().limits == {}
    policy = ReplayOptions(limits=True, no_auth=True).access_policy(SERVICE, recorded_keys=True)
    assert (policy.limits, policy.authentication) == (LIMITS, False)


def test_each_of_the_three_limits_applies_to_some_operation():
    assert set(SERVICE.counts.values()) == set(LIMITS)
    assert set(SERVICE.operations) < set(SERVICE.counts)


def test_limits_are_those_of_the_contract(load):
    with pytest.raises(InputError, match=r"^There are no limits in the contract sse: leave out the option limits\.$"):
        ReplayOptions(limits=True).access_policy(ANY_STREAM, recorded_keys=True)
    with pytest.raises(InputError, match=r"limits\.runs: unknown limit runs: the contract sse has no limits\.$"):
        load("[limits]\nruns = 3", ANY_STREAM)
    assert load("[counts]\nstream = false", ANY_STREAM).limits == {}


@for_each(("text", "message"), TABLES["mistakes"])
def test_a_mistake_is_reported_with_file_and_key(load, text, message):
    with pytest.raises(InputError) as caught:
        load(text)
    assert message in caught.value.message
    assert "\n" not in caught.value.message


def test_the_file_in_the_documentation_is_valid(load):
    page = (Path(__file__).parents[2] / "docs" / "service.md").read_text("utf-8")
    policy = load(page.partition("```toml\n")[2].partition("```")[0])
    assert policy.keys["alice-key"] == ApiKey("acme", "ws_1", frozenset({"events:read"}))
    assert policy.limits == LIMITS
    assert first_match(policy.counts, "GET", "/v1/sessions/s/runs/r") == "runs"
    for name, scope in SERVICE.scopes.items():
        row = next(line for line in page.splitlines() if line.startswith("| `") and f"`{name}`" in line)
        assert f"| `{scope}` | `{SERVICE.counts[name]}` |" in row


@for_each("name", ["", "streams", "GET", "GET v1", "get /v1", "GET /v1?x=1", "GET /a b"])
def test_an_invalid_request_pattern_is_refused(name):
    with pytest.raises(ValueError, match="METHOD /path"):
        RequestPattern.of(name, SERVICE.operations)
