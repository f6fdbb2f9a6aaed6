"""The results of probe cases in the recording of the probe, and in the report about it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

import msgspec

from wiretape.errors import RecordingError
from wiretape.recording import Recording
from wiretape.rules import CATALOGUE, Settings, Severity, explanation_of, parse_service_base
from wiretape.safe_text import printable
from wiretape_inspect.report.case_results import (
    SERVICE_RULES,
    CaseDescription,
    CaseResult,
    CaseResults,
    CaseVerdict,
)

_AGENT = "wiretape-probe"
_IS_NEW = "a session is new if its sequences begin with 0 or 1, or the path of create-session.request ends in /sessions"
_REMEDIES = {
    **dict.fromkeys(("EVT007", "EVT008", "TOOL001", "TOOL004", "TOOL005"), "let the run of runs.plain call a tool"),
    "RUN003": "the service need not store these events",
    "RUN005": _IS_NEW,
    "TOOL002": f"let the run of runs.plain call a tool; {_IS_NEW}",
    "TOOL003": "let the run of runs.plain call a tool; the service need not store these events",
    "RUN004": "the service may not send it",
    "ERR005": "the specification does not require details",
    "SSE010": "the specification does not define it",
}
"""What to change, or why it is not a defect, if the cases held without exercising a rule."""
_Code = Annotated[str, msgspec.Meta(pattern="^[A-Z]+[0-9]+$")]


class _StoredCase(msgspec.Struct):
    """A case as it is stored.  The file may come from a stranger."""

    name: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9-]+/[A-Za-z0-9-]+$")]
    clause: str
    steps: str
    rules: tuple[_Code, ...]
    leaves: str
    is_safe: bool
    severity: Severity
    about: str
    outcome: CaseVerdict
    reason: str
    exercised: frozenset[_Code]
    sessions_left: int


class _StoredProbe(msgspec.Struct):
    """What is stored."""

    base_url: str
    seed: int
    cases: list[_StoredCase]


_DESCRIPTION = ("name", "clause", "steps", "rules", "leaves", "is_safe", "severity", "about")
_RESULT = ("outcome", "reason", "exercised", "sessions_left")


def user_agent(case_name: str) -> str:
    """The User-Agent of a case's requests, which shows in logs and recordings whose they are."""
    return f"{_AGENT} ({case_name})"


def case_name_of(agent: str | None) -> str | None:
    """Return the name of the case whose request it is; None if it is not the probe's."""
    text = agent or ""
    return text[len(_AGENT) + 2 : -1] if text.startswith(f"{_AGENT} (") and text.endswith(")") else None


def encode_results(cases: CaseResults, base_url: str) -> str:
    """Encode the results of a probe of the service at `base_url`, without what the recording shows."""
    stored = [
        _StoredCase(
            **{name: getattr(each.case, name) for name in _DESCRIPTION},
            **{name: getattr(each, name) for name in _RESULT},
        )
        for each in cases.results
    ]
    return msgspec.json.encode(_StoredProbe(base_url, cases.seed, stored)).decode()


def _decode(recording: Recording) -> _StoredProbe | None:
    text = recording.info.probe
    if text is None:
        return None
    try:
        stored = msgspec.json.decode(text, type=_StoredProbe)
        parse_service_base(stored.base_url)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise RecordingError(f"{recording.path} has invalid results of wiretape probe: {error}.") from None
    return stored


def decode_results(recording: Recording) -> CaseResults | None:
    """Decode the results in a recording; None if it is not that of a probe.  Raises RecordingError."""
    stored = _decode(recording)
    if stored is None:
        return None
    results = []
    for each in stored.cases:
        texts = {name: printable(getattr(each, name)) for name in ("clause", "steps", "leaves", "about")}
        case = CaseDescription(**{name: getattr(each, name) for name in _DESCRIPTION} | texts)
        results.append(CaseResult(case, **{name: getattr(each, name) for name in _RESULT}))
    return CaseResults(results, stored.seed)


def applicable(recording: Recording, settings: Settings, selected: frozenset[str]) -> tuple[Settings, frozenset[str]]:
    """Return the settings and the rules for a recording.  Raises RecordingError.

    A probe breaks the rules about clients on purpose, and knows the base of the service.
    """
    stored = _decode(recording)
    if stored is None:
        return settings, selected
    return replace(settings, base=settings.base or parse_service_base(stored.base_url)), selected & SERVICE_RULES


def why_not_reached(code: str, results: Sequence[CaseResult]) -> str:
    """Return why no case exercised a rule: a clause that can follow `because`."""
    meant = [result for result in results if code in result.case.rules]
    if any(result.verdict is CaseVerdict.HELD for result in meant) or not meant:
        why = explanation_of(CATALOGUE[code]).not_exercised.rstrip(".")
        remedy = _REMEDIES.get(code) if meant or code == "SSE010" else "no case that ran is meant to exercise it"
        return f"{why[:1].lower()}{why[1:]}" + (f" ({remedy})" if remedy else "")
    if any(result.verdict is CaseVerdict.BROKEN for result in meant):
        return "the cases that were to exercise it are broken"
    return "; ".join(dict.fromkeys(result.reason.rstrip(".") for result in meant))
