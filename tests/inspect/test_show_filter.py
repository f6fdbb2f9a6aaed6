"""`wiretape show` with a filter: which rows it leaves, in which order."""

import json
import re
from pathlib import Path

import pytest
from findings import finding
from hypothesis import given, settings
from hypothesis import strategies as st
from invoke import succeed

from wiretape.recording import open_recording
from wiretape_inspect import timeline_text
from wiretape_inspect.view.filters import compile_filter, parse_filter
from wiretape_inspect.view.timeline_rows import DeltaRow


def shown(run, path, *words):
    """Return `N` for the head of exchange N, `N:E` for its events, and the kinds of its other rows."""
    result = succeed("show", path, *words, "--json")
    found = []
    for row in map(json.loads, result.stdout.splitlines()):
        number = row["exchange"]
        if row["row"] == "exchange":
            found.append(f"{number}")
        elif row["row"] == "deltas":
            found.append(f"{number}:{row['event']}-{row['last_event']}")
        else:
            found.append(f"{number}:{row['event']}" if row["row"] == "event" else f"{number}:{row['row']}")
    return found


def test_messages_are_filtered_before_deltas_are_folded(run, builder, message):
    texts = ["a", "b", "q", "c"]
    builder.exchange([message("message.delta", delta={"text": text}) for text in texts])
    path = builder.close()
    assert shown(run, path, "-text:q") == ["1", "1:1-2", "1:4-4", "1:end"]
    assert "2 message.delta · 2 chars" in run("show", path, "-text:q").output


def test_findings_are_filtered_by_rule(run, builder, message):
    builder.exchange([message("a", id="e1", sequence=1), message("a", id="e2", sequence=1)])
    builder.exchange(target="/x", status=500, headers=())
    builder.find(finding(2), finding(exchange=2, code="ERR001"))
    path = builder.close()
    assert shown(run, path, "rule:SEQ*") == ["1", "1:2"]
    assert shown(run, path, "rule:*") == ["1", "1:2", "2"]
    assert run("show", path, "rule:seq001").output.splitlines()[-1].strip() == "└ SEQ001 error  It is wrong."


def documented():
    """Return the examples of docs/filter.md: filters and the rows that they leave."""
    text = Path(__file__, "../../../docs/filter.md").resolve().read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([^`]+)` \| [^|]+ \| ([^|`]*) \|$", text.partition("## Examples")[2], re.MULTILINE)
    assert len(rows) > 15
    return [(written, left.split()) for written, left in rows]


@pytest.mark.parametrize(("written", "left"), documented())
def test_documented_examples_leave_the_documented_rows(run, session, written, left):
    assert [item for item in shown(run, session, written) if ":" in item] == left


def test_options_and_conditions_can_be_mixed(run, session):
    found = run("show", session, "-kind:delta", "--json", "exchange:2", "--channel", "s1", "type:tool.*")
    assert [json.loads(line)["row"] for line in found.output.splitlines()] == ["exchange", "event"]


_CONDITIONS = (
    "type:*.delta kind:message kind:end,pause gap:>10ms seq:2..3 event:5..9 tool:t1 run:r1 text:word text:wod,word "
    'exchange:2 session:s1 rule:* id:"e1" kind:request id:*'
)
CONDITIONS = st.sampled_from(_CONDITIONS.split())


@settings(max_examples=20)
@given(st.lists(CONDITIONS, min_size=1, max_size=3))
def test_filter_and_its_negation_split_the_rows_and_keep_the_order(recording, conditions):
    everything = items(recording, "")
    taken = items(recording, ",".join(conditions[:1]))
    rest = items(recording, f"-{conditions[0]}")
    assert sorted([*taken, *rest], key=everything.index) == everything
    assert not set(taken) & set(rest)
    several = items(recording, " or ".join(conditions))
    assert several == [item for item in everything if any(item in items(recording, one) for one in conditions)]


def items(recording, written):
    """Return everything that a filter leaves, with deltas one by one."""
    take, found = compile_filter(parse_filter(written, recording.vocabularies)), []
    for exchange in recording.exchanges():
        rows = timeline_text.matching_rows(recording, exchange, (), take)
        if rows is None:
            continue
        if not exchange.is_stream:
            found.append((exchange.number,))
        for row in rows:
            events = range(row.event, row.last_event + 1) if isinstance(row, DeltaRow) else [row]
            found += [(exchange.number, event if isinstance(event, int) else repr(event)) for event in events]
    return found


@pytest.fixture(scope="module")
def recording(new_builder, recordings):
    builder = new_builder()
    builder.record(recordings["rows"])
    with open_recording(builder.close()) as opened:
        yield opened
