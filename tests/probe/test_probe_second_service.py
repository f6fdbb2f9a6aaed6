"""A second, independent implementation of the specification: its gaps are found, and nothing else."""

import asyncio
import importlib.util
import re
import time
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvicorn

from wiretape_inspect.probe.probe_client import ProbeClock
from wiretape_inspect.probe.probe_file import decode_probe_file
from wiretape_inspect.report.case_results import CaseVerdict

FASTER = 25
GAPS = {
    # Starlette responds with plain text where no route matches.
    "errors/unknown-path": "ERR001",
    "errors/wrong-method": "ERR001",
    # sse-starlette ends the block of a comment with a blank line.
    "streams/keep-alive": "KAL003",
    "streams/keep-alive-during-run": "KAL003",
    # The service does not know idempotency keys.
    "idempotency/same-retry": "Expected the same run for POST /v1/sessions/SESSION/turns, got 409 SESSION_BUSY.",
    "idempotency/different-body": "Expected 409 idempotency_conflict for POST /v1/sessions/SESSION/runs/RUN/resume, "
    "got 409 event_already_resolved.",
    "idempotency/cancel-retry": "Expected 200 again, got 409 RUN_NOT_CANCELLABLE.",
}


class FastClock(ProbeClock):
    """Everything that the probe waits for takes a fraction of the time."""

    def __init__(self):
        self._skipped_ns = 0

    def now_ns(self):
        return time.monotonic_ns() + self._skipped_ns

    async def sleep(self, seconds):
        steps = max(1, round(seconds))
        for _ in range(steps):
            await asyncio.sleep(seconds / steps / FASTER)
            self._skipped_ns += round(seconds / steps * (1 - 1 / FASTER) * 1e9)


@asynccontextmanager
async def serving():
    spec = importlib.util.spec_from_file_location("second_service", Path(__file__).with_name("second_service.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    service = module.Service(15 / FASTER)
    config = uvicorn.Config(service.application(), port=0, log_level="critical", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    try:
        yield service, f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    finally:
        server.should_exit = True
        await task


def describe(url):
    return decode_probe_file(
        {
            "base-url": url,
            "keys": {"main": "A", "other-tenant": "B"},
            "create-session": {"request": "POST /v1/sessions", "id": "/session/id"},
            "create-run": {"request": "POST /v1/sessions/{session_id}/turns", "id": "/run/id"},
            "delete-session": {"request": "DELETE /v1/sessions/{session_id}"},
            "idempotency-header": "Idempotency-Key",
            "runs": {
                "plain": {"prompt": "work"},
                "tool": {"prompt": "ask"},
                "brief-tool": {"prompt": "hurry"},
                "long": {"prompt": "wait"},
                "failing": {"prompt": "fail"},
            },
            "tool-result": {
                "correct": {"call": "{tool_call_id}", "result": {"celsius": 1}},
                "wrong": {"call": "{tool_call_id}", "result": "cold"},
            },
        },
        "probe.toml",
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
async def test_its_gaps_are_found_and_nothing_else(probe):
    keys = {"main": "main-key", "other-tenant": "other-key"}
    async with (
        serving() as (service, url),
        probe(url, file=describe(url), keys=keys, clock=FastClock(), shrink=False) as probed,
    ):
        broken = probed.reasons(CaseVerdict.BROKEN)
        named = {name: re.sub(r"/r\d+/", "/RUN/", re.sub(r"/s\d+/", "/SESSION/", why)) for name, why in broken.items()}
        assert named == GAPS
        assert {code: str(severity) for code, severity in probed.report.counts} == {"ERR001": "error", "KAL003": "note"}
        assert probed.report.cases.sessions_left == len(service.sessions) == 0
        coverage = probed.report.coverage
        assert len(coverage.held) + len(coverage.broken) == 68
        assert probed.report.cases.not_reached["RES006"] == "events of different sessions have the same ids"
