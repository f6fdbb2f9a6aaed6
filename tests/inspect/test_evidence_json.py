"""What a finding is about is found in the lines of its evidence."""

import pytest

from wiretape_inspect.report.evidence import find_offending


@pytest.mark.parametrize(
    ("message", "line", "found"),
    [
        ("Expected no `id` line in a message.delta, got the id `live_7`.", "id: live_7", "live_7"),
        ("Expected a sequence above 6, got 6.", 'data: {"number": 6, "sequence": 6}', "6"),
        ("Expected the end of run `run_1` first, got the start of run `run_2`.", '"run_1" then "run_2"', "run_2"),
        ("Expected `evt_2` before any live output, got an ephemeral event first.", "id: evt_2", "evt_2"),
        (
            "Expected no event of run `run_1` after its run.completed, got a message.completed.",
            "event: message.completed",
            "message.completed",
        ),
        ("Expected UTF-8, got the byte 0xe9 at byte 88 of the event.", "data: \\xe9", None),
        ("Expected a string as `run_id`, got no value.", "data: {}", None),
        ("No such form", "data: {}", None),
    ],
)
def test_actual_value_is_found_before_the_expected_one(message, line, found):
    mark = find_offending(message, ["event: x", line])
    assert (mark and (mark.line, line[mark.begin : mark.end])) == (found and (1, found))
    if found == "6":
        assert mark.begin > line.index("sequence")
