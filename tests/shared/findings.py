"""Findings of live checks, for tests in which only their place matters."""

from wiretape.rules import Finding, Party, Severity


def finding(
    event: int | None = None,
    *,
    exchange: int = 1,
    offset: int | None = None,
    code: str = "SEQ001",
    message: str = "It is wrong.",
) -> Finding:
    """Return a finding about an event, about the byte at an offset, or about an exchange."""
    return Finding(code, Severity.ERROR, Party.SERVICE, exchange, event, None, offset, 5, message)
