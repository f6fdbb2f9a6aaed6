"""Classification of endings."""

from for_each import for_each
from tables import read_tables

from wiretape.observations import Ending
from wiretape_proxy.endings import ErrorSide, Facts, classify

TABLES = read_tables(__file__)


@for_each("row", TABLES["rows"])
def test_an_ending_is_classified(row):
    facts = {"error": None, **row}
    ending = Ending(facts.pop("ending"))
    side = ErrorSide(facts.pop("side")) if "side" in facts else None
    found, detail = classify(Facts(side=side, **facts))
    assert found is ending
    if ending is not Ending.CLIENT_CLOSED:  # which says it, if the client just closed
        assert (detail == "") == (ending is Ending.COMPLETE)


@for_each("error", TABLES["quoting"])
@for_each("side", ErrorSide)
def test_a_detail_quotes_nothing_of_the_traffic(error, side):
    assert "sk-1" not in classify(Facts(error, side))[1]


def test_a_detail_contains_how_many_bytes_arrived():
    counted = "HTTP/1 protocol error: peer closed connection without sending complete message body "
    counted += "(received 17 bytes, expected 1000)"

    assert classify(Facts(counted, ErrorSide.SERVICE))[1] == (
        "The service closed the connection (received 17 bytes, expected 1000)."
    )
