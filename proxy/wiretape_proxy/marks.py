"""Findings on a flow, as mitmproxy's own interfaces show them: a marker, and a comment."""

from collections import deque
from dataclasses import dataclass, field

from mitmproxy.flow import Flow

from wiretape_proxy.reports import Found, Mark

_MARKERS = {"error": ":red_circle:", "warning": ":warning:", "note": ":large_blue_circle:"}
"""By severity, worst first."""
_LATEST = 100
"""How many findings are kept to be shown beside events, the last ones."""


@dataclass(slots=True)
class Marks:
    """What was found about one flow."""

    latest: deque[Found] = field(default_factory=lambda: deque(maxlen=_LATEST))
    """The last of them."""
    _counts: dict[str, int] = field(default_factory=dict)
    _severities: set[str] = field(default_factory=set)
    _comment: str = ""
    _marker: str = ""

    def add(self, mark: Mark) -> None:
        """Take findings in."""
        self._counts[mark.code] = self._counts.get(mark.code, 0) + mark.count
        self._severities.add(mark.severity)

    def put_on(self, flow: Flow) -> None:
        """Mark the flow and comment it, unless somebody else did."""
        comment = ", ".join(code if count == 1 else f"{code} ×{count}" for code, count in self._counts.items())  # noqa: RUF001
        if flow.comment in {"", self._comment}:
            flow.comment = self._comment = comment
        marker = next(marker for severity, marker in _MARKERS.items() if severity in self._severities)
        if flow.marked in {"", self._marker}:
            flow.marked = self._marker = marker
