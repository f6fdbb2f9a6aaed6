from for_each import for_each
from tables import read_tables

from wiretape.labels import count_of, ending_label
from wiretape.observations import Ending
from wiretape.units import format_duration, format_size, format_time

TABLES = read_tables(__file__)


@for_each(("nanoseconds", "words"), TABLES["durations"])
def test_a_duration_is_formatted_in_a_suitable_unit(nanoseconds, words):
    assert format_duration(nanoseconds) == words


@for_each(("size", "words"), [*TABLES["sizes"], (5 * 10**9, "5.0 GB")])
def test_a_size_is_formatted_in_a_suitable_unit(size, words):
    assert format_size(size) == words


def test_times_and_counts_are_formatted_for_people():
    assert format_time(12_304_400_000) == "12.304s"
    assert count_of(1, "event") == "1 event"
    assert count_of(2000, "event") == "2,000 events"


def test_a_complete_response_is_labelled_complete():
    assert ending_label(Ending.COMPLETE, stream=False) == "complete"
    assert ending_label(Ending.SERVICE_CLOSED, stream=False) == "service closed early"
