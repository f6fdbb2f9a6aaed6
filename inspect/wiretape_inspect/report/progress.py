"""A bar on the terminal while a recording is judged, when that takes a while."""

import sys
import time
from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from wiretape.observations import BytesArrived, Observation
from wiretape.recording import Recording

PATIENCE_S = 1.0
"""How long judging may take before a bar is worth showing."""
_INTERVAL_S = 0.1


def watched(recording: Recording, observations: Iterable[Observation]) -> Iterator[Observation]:
    """Pass the observations on; on a terminal, a bar on stderr shows how many of the bytes are through."""
    if not sys.stderr.isatty():
        yield from observations
        return
    total = sum(exchange.request_bytes + exchange.response_bytes for exchange in recording.exchanges())
    columns = (TextColumn("judging"), BarColumn(), TextColumn("{task.percentage:>3.0f}%"), TimeRemainingColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
    task = progress.add_task("", total=total)
    through, due = 0, time.monotonic() + PATIENCE_S
    try:
        for observation in observations:
            through += len(observation.data) if isinstance(observation, BytesArrived) else 0
            if time.monotonic() >= due:
                progress.start()
                progress.update(task, completed=through, refresh=True)
                due = time.monotonic() + _INTERVAL_S
            yield observation
    finally:
        progress.stop()
