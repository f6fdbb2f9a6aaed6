"""The conformance report: a recording checked by every rule, and the result in several formats."""

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module

from wiretape_inspect.report.recording_report import Report, ReportOptions, check_recording
from wiretape_inspect.terminal_output import Line

__all__ = ["FORMATS", "Report", "ReportFormat", "ReportOptions", "check_recording", "load_format"]

ReportFormat = Callable[[Sequence[Report], ReportOptions], Iterator[Line | str] | Iterator[bytes]]
"""Yields the lines of a document about reports, or, for HTML, its bytes."""

FORMATS = {
    "text": "text_format:text_lines",
    "concise": "text_format:concise_lines",
    "json": "json_format:json_lines",
    "ndjson": "json_format:ndjson_lines",
    "junit": "ci_formats:junit_lines",
    "github": "ci_formats:github_lines",
    "gitlab": "ci_formats:gitlab_lines",
    "sarif": "sarif_format:sarif_lines",
    "markdown": "markdown_format:markdown_lines",
    "html": "html_format:html_parts",
}
"""The modules and functions of the formats, by the names that `--format` takes."""


def load_format(name: str) -> ReportFormat:
    """Import the function of a format; the formats that are not used are not imported."""
    module, _, function = FORMATS[name].partition(":")
    found: ReportFormat = getattr(import_module(f"{__name__}.{module}"), function)
    return found
