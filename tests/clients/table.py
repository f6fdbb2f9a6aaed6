"""Writes docs/clients.md: how other people's clients handle a stream that breaks after each of its events.

python tests/clients/table.py docs/clients.md
"""

import asyncio
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

from clients import CLIENTS, Follow, Heard, Outcome, Told, broken, chromium, no_chromium, served, told

from wiretape_replay.client_verdict.client_checker import ClientChecker

Run = tuple[Outcome, set[str]]
"""What a client received, and the rules that it broke or that could not be decided."""
EVENTS = 10
HOWS = {
    "drop": "drop: the connection closes (FIN) in the middle of the body",
    "reset": "reset: the connection is reset (RST)",
    "end": "end: the body ends normally",
    "cut-id": "cut-id: the connection closes (FIN) within the next event, right after its `id` line",
}
AT_ONCE = 4

PAGE = """# Other people's clients and broken streams

Each client follows one session of {events} durable events.
Between the events are deltas, and `: ping` comments, each followed by a blank line; the stream sends `retry: 20`.
The stream breaks once, after the first event, after the second, and so on: {breaks} runs for each kind of break.
`wiretape replay` replays the session, and [faults](faults.md) break it.
`make clients` regenerates this page.

{ways}

| Client | Break | Runs with every event once | Lost | Repeated | Empty | Gave up | Verdict of wiretape |
|---|---|---|---|---|---|---|---|
{rows}

*Lost* and *repeated* count durable events, over all runs.
*Empty* counts events without data that the client dispatches although the stream has none:
it treats a comment and the blank line after it as an event.
*Verdict of wiretape* counts the runs in which the replay reports that the client broke a rule, or could not decide one.
A client that gives up loses everything after the break, unless its user reconnects with the last id.
Nothing in the specification requires a client to reconnect after a body that ended normally:
giving up there is not a finding.
curl and httpx-sse do not reconnect by themselves: a few lines around them do.
Chromium's EventSource cannot send a key, so the replay does not require one.
For Chromium, a chunked stream that is cut short (*drop*) is an error: sometimes it discards events that it has
received but not dispatched, whatever the server, and reconnects with an earlier id or none. Nothing is lost, and
wiretape accepts every id that was sent within the last second before.
"""


async def table() -> str:
    """Measure the rows of the table."""
    missing = [why for why in [*(client.missing() for client in CLIENTS), no_chromium()] if why]
    if missing:
        sys.exit("This needs every client: " + "; ".join(missing) + ".")
    rows = []
    with tempfile.TemporaryDirectory(prefix="wiretape-clients-") as name:
        async with chromium() as follow:
            ways: dict[str, Follow] = {client.name: _in_thread(client.follow) for client in CLIENTS}
            ways["Chromium EventSource"] = follow
            turns = asyncio.Semaphore(AT_ONCE)
            for client, way in ways.items():
                for how in HOWS:
                    runs = [_run(turns, Path(name), client, how, after, way) for after in range(1, EVENTS)]
                    rows.append(_row(client, how, await asyncio.gather(*runs)))
                    print(rows[-1], flush=True)
    return "\n".join(rows)


async def _run(turns: asyncio.Semaphore, folder: Path, client: str, how: str, after: int, follow: Follow) -> Run:
    async with turns:
        own = folder / f"{client.replace('/', '-')}-{how}-{after}"
        own.mkdir()
        path, script, ids = broken(own, how, after, EVENTS)
        checker = ClientChecker()
        async with served(path, script, checker) as playing:
            outcome = Outcome.of(await follow(told(playing, ids)), ids)
        return outcome, {*checker.attribution.client.codes, *(f"inconclusive {code}" for code in checker.inconclusive)}


def _in_thread(follow: Callable[[Told], Heard]) -> Callable[[Told], Awaitable[Heard]]:
    return partial(asyncio.to_thread, follow)


def _row(client: str, how: str, runs: list[Run]) -> str:
    outcomes = [outcome for outcome, _ in runs]
    codes = Counter(code for _, codes in runs for code in codes)
    verdict = ", ".join(f"{code} in {count} of {len(runs)}" for code, count in sorted(codes.items())) or "-"
    whole = sum(1 for seen in outcomes if not seen.lost and not seen.repeated and not seen.gave_up)
    reasons: defaultdict[str, int] = defaultdict(int)
    for seen in outcomes:
        if seen.gave_up:
            reasons[seen.gave_up] += 1
    gave_up = "; ".join(f"{count} x {reason}" for reason, count in reasons.items()) or "-"
    figures = [sum(getattr(seen, name) for seen in outcomes) for name in ("lost", "repeated", "empty")]
    cells = [client, how, f"{whole} of {len(outcomes)}", *(str(figure or "-") for figure in figures), gave_up, verdict]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    ways = "\n".join(f"- {said}" for said in HOWS.values())
    page = PAGE.format(events=EVENTS, breaks=EVENTS - 1, ways=ways, rows=asyncio.run(table()))
    Path(sys.argv[1]).write_text(page, "utf-8")
