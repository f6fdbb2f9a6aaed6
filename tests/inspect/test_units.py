import pytest

from wiretape.labels import count_of, ending_label
from wiretape.observations import Ending
from wiretape.units import format_duration, format_size, format_time


@pytest.mark.parametrize(
    ("nanoseconds", "words"),
    [
        (0, "0.0 ms"),
        (412_000, "0.4 ms"),
        (9_499_999, "9.5 ms"),
        (9_500_000, "10 ms"),
        (999_000_000, "999 ms"),
        (999_900_000, "1.0 s"),
        (59_949_000_000, "59.9 s"),
        (59_990_000_000, "1 min 0 s"),
        (3_599_400_000_000, "59 min 59 s"),
        (3_599_600_000_000, "1 h 0 min"),
        (3_725_000_000_000, "1 h 2 min"),
    ],
)
def test_a_duration_is_formatted_in_a_suitable_unit(nanoseconds, words):
    assert format_duration(nanoseconds) == words


@pytest.mark.parametrize(
    ("size", "words"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_949, "999.9 kB"), (999_950, "1.0 MB"), (5 * 10**9, "5.0 GB")],
)
def test_a_size_is_formatted_in_a_suitable_unit(size, words):
    assert format_size(size) == words


def test_times_and_counts_are_formatted_for_people():
    assert format_time(12_304_400_000) == "12.304s"
    assert count_of(1, "event") == "1 event"
    assert count_of(2000, "event") == "2,000 events"


def test_a_complete_response_is_labelled_complete():
    assert ending_label(Ending.COMPLETE, stream=False) == "complete"
    assert ending_label(Ending.SERVICE_CLOSED, stream=False) == "service closed early"
