"""Find out what a probe file has to say about a service, by trying the values that it may have."""

import asyncio
import dataclasses
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, get_args

from msgspec.structs import replace

from wiretape.errors import InputError
from wiretape.event import Event
from wiretape.files import path_exists
from wiretape.observations import header
from wiretape_contracts.agent_sessions import (
    AGENT_CUSTOM_TOOL_USE,
    PERMISSION_DENIED,
    RUN_FAILED,
    RUNTIME_RESUME_UNAVAILABLE,
    SANDBOX_PROVISION_FAILED,
    STREAM_RESYNC,
    TERMINAL_RUN_TYPES,
    TOOL_FAILED,
    TOOL_RESULT_INVALID,
    TOOL_STARTED,
)
from wiretape_contracts.agent_sessions.probe.probe_file import (
    Hooks,
    Operation,
    ProbeFile,
    decode_probe_file,
    file_values,
    initial_file,
    keys_of,
    probe_file_text,
    read_probe_file,
)
from wiretape_contracts.agent_sessions.probe.prober import Prober, RunKind, StreamReader, find_calls
from wiretape_inspect.probe.probe_case import FoundFile, NotPossible, TimedOut, Unexpected
from wiretape_inspect.probe.probe_client import HttpExchange, ObservationLog, ProbeClient, ProbeClock
from wiretape_inspect.probe.probe_steps import (
    Send,
    StepRunner,
    UnknownNameError,
    is_replayed,
    pointers,
    resolve_pointer,
)
from wiretape_inspect.report.case_results import user_agent

IDEMPOTENCY_HEADERS = ("Idempotency-Key", "X-Idempotency-Key", "Idempotency-Token", "X-Request-Id", "Request-Id")
"""Names that other services use."""
_MOST_SECONDS = 10.0
"""How long to wait for what a kind of run does."""
_MANY = 500
_SHORT_SECONDS = 3.0
"""A run that takes longer than this, and longer than twice a plain one, is long."""


@dataclass(slots=True)
class Discovery:
    """What is known about a service."""

    values: dict[str, Any]
    """The values of the probe file, by their keys, such as `create-session.id`."""
    rejected: dict[str, Any] = field(default_factory=dict)
    """Values that did not work."""
    problems: dict[str, str] = field(default_factory=dict)
    """Why a value was not found."""
    blocker: str = ""
    """The key without which nothing else can be found."""
    events: Sequence[Event] = ()
    """The events of a plain run."""

    def keep(self, key: str, value: Any, problem: str = "") -> None:
        """Note that a value was found, or that it was not because of a problem."""
        if problem:
            self.rejected |= {key: self.values.pop(key)} if key in self.values else {}
            self.problems[key] = problem
        else:
            self.values[key] = value

    def sentences(self) -> Iterator[str]:
        """Yield what was found, for people."""
        for name, is_durable in (("durable", True), ("ephemeral", False)):
            types = dict.fromkeys(event.type for event in self.events if is_replayed(event) is is_durable)
            if types:
                yield f"{name} events: {', '.join(types)}"
        contents = (event.document.get("content") for event in self.events if event.type == TOOL_STARTED)
        tools = dict.fromkeys(str(each.get("name")) for each in contents if isinstance(each, dict))
        if tools:
            yield f"tools: {', '.join(tools)}"
        by_problem: dict[str, list[str]] = {}
        for key, problem in self.problems.items():
            by_problem.setdefault(problem, []).append(key)
        yield from (f"not found: {', '.join(keys)}, because {problem}" for problem, keys in by_problem.items())


class _FailedError(Exception):
    """Without this, nothing else can be found: the key, and why."""


async def discover_file(url: str, path: Path, timeout_s: float) -> FoundFile:
    """Find the values of a file for the service at a URL; see `discover`.

    What an existing file says is tried first.
    """
    text = initial_file(url)
    file = read_probe_file(path) if path_exists(path) else decode_probe_file(tomllib.loads(text), str(path))
    file = replace(file, base_url=url.rstrip("/"))
    found = await discover(file, keys_of(file), timeout_s)
    text = probe_file_text(url, found.values, found.rejected, found.problems)
    return FoundFile(text, [*found.sentences()], not found.problems, found.blocker)


async def discover(file: ProbeFile, keys: Mapping[str, str], timeout_s: float) -> Discovery:
    """Try the values of a probe file, and other usual ones.  Raises InputError if the service cannot be used.

    `timeout_s` is how long to wait for a response, or for the end of a plain run.
    """
    client = ProbeClient(file)
    await client.check_reachable(timeout_s)
    explorer = _Explorer(client, file, keys, timeout_s, Discovery(file_values(file)))
    try:
        await explorer.find_session()
        await explorer.find_run()
        await asyncio.gather(
            explorer.find_records(),
            explorer.find_idempotency_header(),
            *(explorer.find_kind(kind) for kind in get_args(RunKind) if kind != "plain"),
        )
    except (Unexpected, TimedOut) as error:
        raise InputError(str(error)) from None
    except _FailedError as error:
        explorer.found.blocker, problem = error.args
        explorer.found.problems[explorer.found.blocker] = problem
    finally:
        await explorer.clean_up()
    return explorer.found


@dataclass(slots=True)
class _Explorer:
    client: ProbeClient
    file: ProbeFile
    """With what was found."""
    keys: Mapping[str, str]
    timeout_s: float
    found: Discovery
    probers: list[Prober] = field(default_factory=list)
    run_s: float = 0.0
    """How long the plain run took."""

    def prober(self, timeout_s: float | None = None) -> Prober:
        log, agent = ObservationLog(ProbeClock()), user_agent("discover")
        runner = StepRunner(self.client, log, self.keys, agent, {"call": find_calls})
        self.probers.append(Prober(self.file, runner, timeout_s=timeout_s or self.timeout_s))
        return self.probers[-1]

    async def clean_up(self) -> None:
        """Cancel the runs that are active, and delete the sessions if that is possible."""
        for prober in self.probers:
            prober.file = self.file
            with suppress(TimedOut, Unexpected, UnknownNameError):
                await prober.clean_up()

    async def find_session(self) -> None:
        """Find how sessions are created, and where their ids are: with an id, a stream opens."""
        create = self.file.create_session
        if create is None:
            raise _FailedError("create-session.request", "the file does not have it")
        prober = self.prober()
        exchange = await prober.execute(prober.session_step())
        self._check(prober, exchange, "create-session.request")
        for pointer in dict.fromkeys((create.id, *pointers(exchange.json))):
            value = resolve_pointer(exchange.json, pointer)
            if isinstance(value, str | int) and not isinstance(value, bool):
                prober.runner.ids["session-1"] = str(value)
                stream = await prober.request_stream("<<session-1>>")
                await stream.close()
                if stream.exchange.status == 200 and stream.exchange.is_stream:
                    self.file = replace(self.file, create_session=replace(create, id=pointer))
                    self.found.values["create-session.id"] = pointer
                    return
        raise _FailedError("create-session.id", f"no value in the response to {create.request} opens a stream")

    async def find_run(self) -> None:
        """Find how runs are created, and where their ids are: the events of the run have the same."""
        create = self.file.create_run
        if create is None:
            raise _FailedError("create-run.request", "the file does not have it")
        prober = self.prober()
        stream = await prober.open_stream(await prober.create_session())
        began_s = time.monotonic()
        for body in (self.file.runs.plain, {}):
            self.file = prober.file = replace(self.file, runs=replace(self.file.runs, plain=body))
            exchange = await prober.execute(prober.run_step("<<session-1>>"))
            if exchange.is_success:
                break
        self._check(prober, exchange, "create-run.request")
        self.found.values["runs.plain"] = body
        try:
            self.found.events = await stream.until(*TERMINAL_RUN_TYPES)
        except TimedOut:
            raise _FailedError("runs.plain", f"the run does not end within {self.timeout_s:g} s (--timeout)") from None
        self.run_s = time.monotonic() - began_s
        runs = {event.keys.get("run") for event in self.found.events}
        for pointer in dict.fromkeys((create.id, *pointers(exchange.json))):
            if str(resolve_pointer(exchange.json, pointer)) in runs:
                self.file = replace(self.file, create_run=replace(create, id=pointer))
                self.found.values["create-run.id"] = pointer
                return
        raise _FailedError("create-run.id", f"no value in the response to {create.request} is the run_id of its events")

    def _check(self, prober: Prober, exchange: HttpExchange, key: str) -> None:
        """Raise what ends the discovery unless something was created."""
        if exchange.json is None or exchange.status is None:
            kind = header(exchange.headers, "content-type") or "no Content-Type"
            got = exchange.outcome if exchange.status is None else f"{exchange.outcome}, {kind}"
            raise InputError(
                f"{self.client.authority} is not an Agent Session Service, or {key} is wrong: expected JSON for "
                f"{exchange.method} {exchange.target}, got {got}."
            )
        if exchange.error_code == PERMISSION_DENIED:
            raise prober.refused_key("main", exchange)
        if not exchange.is_success:
            is_elsewhere = exchange.status in {HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED}
            hint = ": try another path, or another method such as PUT" if is_elsewhere else ""
            raise _FailedError(key, f"{exchange.method} {exchange.target} got {exchange.outcome}{hint}")

    async def find_records(self) -> None:
        """Find how sessions and runs are read, and how sessions are deleted: below the path that creates them."""
        prober = self.prober()
        session = await prober.create_session()
        stream = await prober.open_stream(session)
        run = await prober.create_run(session)
        await stream.until_run_ends(run)
        file, create_session, create_run = self.file, self.file.create_session, self.file.create_run
        assert create_session is not None  # noqa: S101 - it created a session
        assert create_run is not None  # noqa: S101 - it created a run
        below = f"{create_session.target}/{{session_id}}"
        for key, known, usual in (
            ("read-session", file.read_session, (f"GET {below}", "GET /v1/sessions/{session_id}")),
            ("read-run", file.read_run, (f"GET {create_run.target}/{{run_id}}", "GET /v1/runs/{run_id}")),
            ("delete-session", file.delete_session, (f"DELETE {below}", "DELETE /v1/sessions/{session_id}")),
        ):
            problem = ""
            for request in dict.fromkeys((*((known.request,) if known else ()), *usual)):
                operation = Operation(request)
                target = operation.target.replace("{session_id}", session).replace("{run_id}", run)
                exchange = await prober.send(operation.method, target)
                if exchange.is_success:
                    self.found.keep(f"{key}.request", request)
                    self.file = replace(self.file, **{key.replace("-", "_"): operation})
                    break
                problem = problem or f"{request} got {exchange.outcome}"
            else:
                self.found.keep(f"{key}.request", None, problem)

    async def find_idempotency_header(self) -> None:
        """Find the header that makes two equal requests create one run, or resume it once."""
        known = self.file.idempotency_header
        names = tuple(dict.fromkeys((*((known,) if known else ()), *IDEMPOTENCY_HEADERS)))
        for is_honoured in (self._creates_one_run, self._resumes_once):
            with suppress(NotPossible, Unexpected, TimedOut, UnknownNameError):
                # If a request can be repeated without the header, the header shows nothing.
                for name in () if await is_honoured("") else names:
                    if await is_honoured(name):
                        self.found.keep("idempotency-header", name)
                        return
        problem = f"none of {', '.join(names)} repeats a request (you can set another one, or keep one that you know)"
        self.found.keep("idempotency-header", None, problem)

    async def _creates_one_run(self, name: str) -> bool:
        prober = self.prober()
        session = await prober.create_session()
        step = _with_key(prober.run_step(session), name, session)
        first = await prober.execute(step)
        first_id = prober.runner.ids.get("run-1")
        again = await prober.execute(step)
        return again.is_success and first.is_success and prober.runner.ids.get("run-1") == first_id

    async def _resumes_once(self, name: str) -> bool:
        prober = self.prober(_MOST_SECONDS)
        session, run, _, call = await prober.start_tool_call()
        step = _with_key(prober.command_step(run, "resume", prober.result(call)), name, session)
        return (await prober.execute(step)).is_success and (await prober.execute(step)).is_success

    async def find_kind(self, kind: RunKind) -> None:
        """Find out whether the body of a kind of run makes the service do what it is for."""
        key = f"runs.{kind}"
        if key not in self.found.values:
            return
        timeout_s = max(_SHORT_SECONDS, 2 * self.run_s) if kind == "long" else _MOST_SECONDS
        prober = self.prober(timeout_s)
        # A hook would take the place of the body.
        prober.file = replace(self.file, hooks=Hooks())
        try:
            seen = await self._observe(prober, kind)
        except (NotPossible, Unexpected, TimedOut, UnknownNameError):
            seen = set()
        if kind not in seen:
            self.found.keep(key, None, "no run with such a body did that")
        for name in ("correct", "wrong") if kind == "tool" else ():
            if f"tool-result.{name}" in self.found.values and name not in seen:
                self.found.keep(f"tool-result.{name}", None, "no run with such a body did that")

    async def _observe(self, prober: Prober, kind: RunKind) -> set[str]:
        """Create a run; return the kinds whose effects it has, and which of the results."""
        session = await prober.create_session()
        stream = await prober.open_stream(session)
        step = prober.run_step(session, kind)
        exchange = await prober.execute(step)
        if not exchange.is_success:
            return {"no-sandbox"} if exchange.error_code == SANDBOX_PROVISION_FAILED else set()
        run = f"<<{step.id_name}>>"
        try:
            found = await stream.until(STREAM_RESYNC, AGENT_CUSTOM_TOOL_USE, *TERMINAL_RUN_TYPES, run=run)
        except TimedOut:
            return {"long"}
        last = found[-1].type
        if last == STREAM_RESYNC:
            return {"resync"}
        if last == AGENT_CUSTOM_TOOL_USE:
            return await self._answer(prober, run, stream, kind)
        is_many = sum(map(is_replayed, found)) >= _MANY
        return {name for name, is_so in (("many", is_many), ("failing", last == RUN_FAILED)) if is_so}

    async def _answer(self, prober: Prober, run: str, stream: StreamReader, kind: RunKind) -> set[str]:
        if kind == "brief-tool":
            await stream.until(TOOL_FAILED, *TERMINAL_RUN_TYPES, run=run)
            return {"brief-tool"}
        call, seen = stream.first_call, {"tool"}
        results = self.file.tool_result
        if kind == "tool" and results is not None and results.wrong is not None:
            refused = await prober.command(run, "resume", prober.result(call, wrong=True))
            seen |= {"wrong"} if refused.error_code == TOOL_RESULT_INVALID else set()
        answered = await prober.command(run, "resume", prober.result(call))
        seen |= {"correct"} if answered.is_success else set()
        return seen | ({"unavailable-tool"} if answered.error_code == RUNTIME_RESUME_UNAVAILABLE else set())


def _with_key(step: Send, name: str, session: str) -> Send:
    """Return a request with an idempotency key in the header with this name; without one if that is empty."""
    return dataclasses.replace(step, headers=(*step.headers, (name, f"discover-{session}"))) if name else step
