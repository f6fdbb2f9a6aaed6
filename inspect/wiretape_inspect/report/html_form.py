"""The report as one HTML file: no script, nothing fetched, every recorded character escaped."""

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import PurePath

from wiretape import __version__
from wiretape.rules import CATALOGUE, Finding, Verdict
from wiretape.text import printable
from wiretape_inspect.report.evidence import Evidence, evidence
from wiretape_inspect.report.judging import Report
from wiretape_inspect.report.options import Options, plain
from wiretape_inspect.report.places import Placed, placed
from wiretape_inspect.report.text_form import findings_said, see
from wiretape_inspect.words import count, moment

EACH = 50
"""How many findings of one rule are shown, unless all are asked for."""
_STYLE = """
:root { color-scheme: light dark; --line: #8884; }
:root { --error: #c62828; --warning: #9a6700; --note: #1565c0; --pass: #2e7d32; }
@media (prefers-color-scheme: dark) {
  :root { --error: #ff8a80; --warning: #ffca61; --note: #90caf9; --pass: #a5d6a7; }
}
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { overflow-x: auto; padding: .6rem .8rem; border: 1px solid var(--line); border-radius: 6px; margin: .4rem 0; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
article { border-left: 3px solid var(--line); padding: .1rem 0 .1rem .9rem; margin: 1.2rem 0; }
.error { color: var(--error); } .warning { color: var(--warning); } .note { color: var(--note); }
.pass { color: var(--pass); } .fail { color: var(--error); font-weight: 600; }
.not-exercised, .inconclusive, .dim { opacity: .7; }
article.error { color: inherit; border-left-color: var(--error); }
article.warning { color: inherit; border-left-color: var(--warning); }
article.note { color: inherit; border-left-color: var(--note); }
h3 { margin: 0; font-size: 1rem; } p { margin: .3rem 0; overflow-wrap: anywhere; }
"""


def html_lines(reports: Sequence[Report], options: Options) -> Iterator[str]:
    """The lines of the document."""
    title = ", ".join(_text(PurePath(report.file).name) for report in reports)
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>wiretape report: {title}</title><style>{_STYLE}</style></head><body>"
    yield "<h1>wiretape report</h1>"
    for report in reports:
        yield from _report(report, options)
    yield f'<p class="dim">wiretape {__version__}</p></body></html>'


def _text(text: str) -> str:
    """Recorded text as itself: what controls or turns text is shown as an escape, what is markup as characters."""
    return escape(printable(text))


def _report(report: Report, options: Options) -> Iterator[str]:
    info = report.info
    yield f"<section><h2>{_text(report.file)}</h2>"
    yield f"<p>{_summary(report)}</p>"
    began = f"{info.started:%Y-%m-%d %H:%M:%S} UTC"
    yield f'<p class="dim">{_text(info.tool)} recorded {_text(info.upstream)} from {began}'
    yield f" · {count(info.redacted, 'secret')} replaced by fingerprints</p>"
    yield from _findings(report, options)
    yield from _rules(report, options)
    yield "</section>"


def _summary(report: Report) -> str:
    parts = [findings_said(report.severities, plain)]
    if report.suppressed:
        parts.append(f"{len(report.suppressed):,} known to the baseline")
    parts.append(f"{report.exercised} of {count(len(report.selected), 'rule')} exercised")
    parts.append(f"{count(report.events, 'event')} in {count(report.exchanges, 'exchange')}")
    return " · ".join(parts)


def _findings(report: Report, options: Options) -> Iterator[str]:
    most = None if options.everything else EACH
    for place in placed(report.recording, enumerate(report.firsts(most))):
        yield from _finding(report, place)
    for code, number in report.more(most).items():
        yield f"<p>… and {number:,} more of {code} {CATALOGUE[code].name}</p>"


def _finding(report: Report, place: Placed) -> Iterator[str]:
    finding, request = place.finding, place.exchange.request
    rule, seen = CATALOGUE[finding.code], evidence(report.recording, place)
    yield f'<article class="{finding.severity}">'
    yield f'<h3 class="{finding.severity}">{rule.code} {rule.name}</h3>'
    yield f"<p>{finding.severity} of the {finding.side}: {_text(finding.message)}</p>"
    yield f'<p class="dim"><code>{_text(request.method)} {_text(request.target)}</code>'
    yield f"<br>{_where(finding, seen)}</p>"
    if seen.lines:
        lines = "\n".join(escape(f"{margin:>6} | {line}") for margin, line in seen.lines)
        yield f"<pre>{lines}</pre>"
    yield f'<p class="dim">{_text(rule.clause)} ({rule.basis})<br><code>{_text(see(report.file, finding))}</code>'
    yield f"<br><code>wiretape rule {rule.code}</code></p></article>"


def _where(finding: Finding, seen: Evidence) -> str:
    parts = [f"exchange {finding.exchange}"]
    parts += [f"event {finding.event}"] if finding.event is not None else []
    parts += [f"sequence {finding.sequence}"] if finding.sequence is not None else []
    parts += [seen.span(finding.byte_offset)] if finding.byte_offset is not None else []
    return ", ".join([*parts, moment(finding.time_ns)])


def _rules(report: Report, options: Options) -> Iterator[str]:
    unsettled = [Verdict.FAIL, Verdict.INCONCLUSIVE, Verdict.PASS, Verdict.NOT_EXERCISED]
    yield f"<details><summary>All {count(len(report.selected), 'rule')} and their verdicts</summary><table>"
    yield "<tr><th>Rule</th><th>Verdict</th><th>Severity</th><th>Came up</th><th>Findings</th></tr>"
    for verdict in unsettled:
        for code in report.verdicts[verdict]:
            tally, severity = report.tallies[code], report.severity_of(code)
            name = f"{code} {CATALOGUE[code].name}"
            url = f"{options.docs_url}{code}.md"
            linked = f'<a href="{escape(url)}">{name}</a>' if options.docs_url else name
            yield f'<tr><td>{linked}</td><td class="{verdict}">{verdict}</td><td class="{severity}">{severity}</td>'
            yield f'<td class="number">{tally.exercised:,}</td><td class="number">{tally.findings:,}</td></tr>'
    yield "</table></details>"
