"""The conformance report: recordings judged by every rule, and what came of it in several forms."""

from wiretape_inspect.report.forms import FORMS, Form
from wiretape_inspect.report.options import Options
from wiretape_inspect.report.recording_report import Report, judge

__all__ = ["FORMS", "Form", "Options", "Report", "judge"]
