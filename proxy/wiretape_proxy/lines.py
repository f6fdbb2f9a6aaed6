"""One line of text for each thing worth saying.  Recorded text is made safe to show."""

from wiretape import labels
from wiretape.labels import count_of
from wiretape.safe_text import printable
from wiretape_proxy.reports import CatchingUp, Closed, Ended, Found


def finding(found: Found) -> str:
    """A finding."""
    more = " (more of these in this exchange are recorded, but not shown here)" if found.more else ""
    return labels.finding_line(found.severity, found.code, found.exchange, found.event, found.message) + more


def ending(ended: Ended) -> str:
    """How an exchange ended."""
    status = f" {ended.status}" if ended.status is not None else ""
    events = f"{count_of(ended.events, 'event')}, " if ended.events else ""
    what = f"{ended.method} {ended.path}{status}: {events}{volume(ended.bytes)} in {duration(ended.seconds)}"
    findings = f", {count_of(ended.findings, 'finding')}" if ended.findings else ""
    detail = f". {ended.detail}" if ended.detail else ""
    return printable(f"exchange {ended.exchange}: {what}, {ended.words}{findings}{detail}")


def summary(closed: Closed, path: str) -> str:
    """What a recording holds."""
    parts = (
        count_of(closed.exchanges, "exchange"),
        count_of(closed.streams, "stream"),
        count_of(closed.events, "event"),
        count_of(closed.findings, "finding"),
    )
    if closed.misplaced:
        return printable(f"{path} was deleted or replaced meanwhile: {', '.join(parts)} are not in it.")
    return printable(f"Recorded {', '.join(parts)} to {path}")


def catching_up(report: CatchingUp) -> str:
    """Why it takes so long."""
    return f"All is stored, {unchecked(report.unchecked)}: closing takes a moment."


def unchecked(number: int) -> str:
    """How many bytes are still to be checked."""
    return f"{number / 1e6:,.1f} MB not yet checked"


def volume(number: int) -> str:
    """A number of bytes."""
    return count_of(number, "byte")


def duration(seconds: float) -> str:
    """A time, as exact as it is of use."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:,.1f} s"
