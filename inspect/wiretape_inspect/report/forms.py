"""The forms that a report can have, by the names that `--format` takes."""

from collections.abc import Callable, Iterator, Sequence

from wiretape_inspect.report.github_format import github_lines
from wiretape_inspect.report.html_format import html_lines
from wiretape_inspect.report.json_format import json_lines, ndjson_lines
from wiretape_inspect.report.junit_format import junit_lines
from wiretape_inspect.report.markdown_format import markdown_lines
from wiretape_inspect.report.options import Options
from wiretape_inspect.report.recording_report import Report
from wiretape_inspect.report.sarif_format import sarif_lines
from wiretape_inspect.report.text_format import concise_lines, text_lines

Form = Callable[[Sequence[Report], Options], Iterator[str]]
"""The lines of a document about some reports."""

FORMS: dict[str, Form] = {
    "text": text_lines,
    "concise": concise_lines,
    "json": json_lines,
    "ndjson": ndjson_lines,
    "junit": junit_lines,
    "github": github_lines,
    "sarif": sarif_lines,
    "markdown": markdown_lines,
    "html": html_lines,
}
