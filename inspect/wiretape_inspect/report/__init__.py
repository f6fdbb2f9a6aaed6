"""The conformance report: a recording judged by every rule, and what came of it as text or JSON."""

from wiretape_inspect.report.json_form import json_lines
from wiretape_inspect.report.judging import Report, judge
from wiretape_inspect.report.text_form import text_lines

__all__ = ["Report", "json_lines", "judge", "text_lines"]
