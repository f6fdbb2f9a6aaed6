"""Views of recordings with several contracts, whose names come from strangers."""

import sqlite3
from contextlib import closing

import pytest

from wiretape.contract.contract_facts import ContractChoice, build_facts
from wiretape.contract.contract_files import ContractFiles, read_layers
from wiretape.recording import schema

QUOTES = """it's "over";
DROP TABLE exchange;
"""
FORUM = """
contract = "forum"
[operations.read]
request = "GET /threads/{thread}"
cursor = "header:Last-Event-ID"
channel = "{thread}"
[entity.chunk]
key = "/chunk"
opens = "opened"
closes = ["a?*", "done"]
[entity.item]
key = "/item"
opens = "opened"
closes = "closed"
within = "chunk"
title = "/ti'tle"
"""
SHOP = f"""
contract = "shop"
[operations.read]
request = "GET /orders/{{order_id}}/items/{{item}}"
cursor = "query:after"
channel = "{{order_id}}"
[event]
cursor = "/n"
sequence = "/n"
[entity.item]
key = "/item"
opens = "opened"
closes = ['''{QUOTES}''', "closed"]
"""


def facts(text):
    return build_facts(read_layers(ContractFiles(None, {"a.toml": text}), "a.toml"))


@pytest.fixture
def views():
    """A recording with an exchange of each contract, whose events both name the second entity of `forum`."""
    with schema.empty_recording() as connection:
        connection.isolation_level = None
        schema.create_views(connection, ContractChoice([facts(FORUM), facts(SHOP)]))
        connection.execute("INSERT INTO recording (id, started, started_unix_ns, salt) VALUES (1, '', 0, x'00')")
        keys = ['{"chunk":"c1","item":"i1"}', '{"item":"i1"}']
        texts = enumerate(["opened", "a?bc", "abc", QUOTES, *keys, "message"], 1)
        connection.executemany("INSERT INTO word VALUES (?, ?)", texts)
        heads = [(1, "forum", "t1", None), (2, "shop", "o1", None), (3, "shop", "o1", "7")]
        connection.executemany(
            "INSERT INTO exchange (id, label, client, method, scheme, authority, target, request_version, "
            "request_headers, started_ns, ending, detail, contract, operation, channel, cursor, request_bytes, "
            "response_bytes, lost_bytes) VALUES (?, '', '', 'GET', '', '', '/', '', '[]', 1, 'open', '', ?, 'read', "
            "?, ?, 0, 0, 0)",
            heads,
        )
        rows = [
            (1, 1, 1, 5, '{"ti\'tle": "One"}', None),
            (1, 2, 3, 5, "{}", None),
            (1, 3, 2, 5, "{}", None),
            (2, 1, 1, 6, "{}", 7),
            (2, 2, 4, 6, "{}", 8),
            (3, 1, 4, 6, "{}", 8),
        ]
        connection.executemany(
            "INSERT INTO frame (exchange_id, start, length, kind, time_ns, event, type, keys, data, sequence) "
            "VALUES (:x, :e, 1, 7, :e, :e, :type, :keys, :data, :sequence)",
            [dict(zip(("x", "e", "type", "keys", "data", "sequence"), row, strict=True)) for row in rows],
        )
        with closing(connection.cursor()) as cursor:
            cursor.row_factory = sqlite3.Row
            yield lambda query: [tuple(row) for row in cursor.execute(query)]


def test_each_contract_has_its_columns_and_views(views):
    events = views("SELECT DISTINCT exchange_id, thread_id, order_id, chunk_id, item_id FROM events")
    assert events == [(1, "t1", None, "c1", "i1"), (2, None, "o1", None, "i1"), (3, None, "o1", None, "i1")]
    assert views("SELECT thread_id, chunk_id, outcome, items FROM chunks_of_forum") == [("t1", "c1", "a?bc", 1)]
    assert views("SELECT chunk_id, item_id, name, outcome FROM items") == [("c1", "i1", "One", None)]
    assert views("SELECT order_id, item_id, outcome FROM items_of_shop") == [("o1", "i1", QUOTES)]
    assert views("SELECT thread_id, exchanges FROM threads") == [("t1", 1)]
    assert views("SELECT order_id, exchanges FROM orders") == [("o1", 2)]
    assert views("SELECT item_id FROM exchanges WHERE order_id IS NOT NULL") == [(None,), (None,)]


def test_a_cursor_is_an_id_or_a_sequence_as_the_contract_says(views):
    assert views("SELECT order_id, last_event_id, cursor_sequence, lost_events FROM resumes") == [("o1", "7", 7, 0)]


def test_names_and_types_of_strangers_stay_texts(views):
    assert views("SELECT count(*) FROM exchange") == [(3,)]
    names = {name for (name,) in views("SELECT name FROM sqlite_master WHERE type = 'view'")}
    assert {"chunks", "chunks_of_forum", "items", "items_of_shop", "threads", "orders"} <= names
    for name in names:
        views(f"SELECT * FROM {name}")  # noqa: S608 - they are quoted
