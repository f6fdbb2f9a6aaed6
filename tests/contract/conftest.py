"""Contracts written as text, and the traffic that they check."""

from dataclasses import dataclass
from textwrap import dedent

import pytest
from invoke import invoke
from stream_text import LOST

from wiretape.checker import Checker, Settings
from wiretape.contract.contract_builder import load_contract
from wiretape.observations import BytesLost, Ending, Side
from wiretape.traffic_builder import TrafficBuilder

HEAD = """
contract = "test"
[operations.send]
request = "POST /x"
[operations.follow]
request = "GET /x/{id}"
cursor = "header:Last-Event-ID"
channel = "{id}"
begins = "start"
[event]
type = "/type"
sequence = "/n"
delta = { types = "delta", text = "/text" }
[entity.run]
key = "/run"
opens = "run.start"
closes = "run.end"
[entity.call]
key = "/call"
opens = "call.start"
closes = "call.end"
within = "run"
"""


@dataclass
class Checked:
    """What a contract finds in some traffic."""

    messages: list[str]
    tally: object
    findings: list
    checker: Checker

    @property
    def verdict(self):
        return self.tally.verdict.value


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs `wiretape …` in a folder of the test."""
    monkeypatch.chdir(tmp_path)
    return invoke


@pytest.fixture
def head():
    """A contract without rules."""
    return HEAD


@pytest.fixture
def contract(tmp_path):
    """Loads a contract with the head above and one rule, whose primitive is given."""

    def load(primitive, *, head=HEAD, name="test.toml", more=""):
        text = f"""
        [[rule]]
        code = "TST001"
        name = "broken"
        clause = "c"
        breaks = ""
        {primitive}
        """
        path = tmp_path / name
        path.write_text(head + dedent(text) + dedent(more), "utf-8")
        return load_contract(str(path))

    return load


@pytest.fixture
def check():
    """Checks exchanges with a contract; each is a request, its chunks and an ending."""

    def check(contracts, *exchanges):
        contracts = contracts if isinstance(contracts, tuple) else (contracts,)
        traffic = TrafficBuilder()
        for request, chunks, ending in exchanges:
            method, target, *cursor = request.split()
            headers = {"Last-Event-ID": cursor[0]} if cursor else {}
            exchange = traffic.request(method, target, headers=headers).respond_stream()
            sent = 0
            for chunk in chunks:
                if chunk == LOST:
                    traffic.add(BytesLost(exchange.number, traffic.tick(), Side.RESPONSE, sent, 10, "test"))
                    exchange._sent[Side.RESPONSE] = sent = sent + 10
                else:
                    exchange.send(chunk)
                    sent += len(chunk)
            exchange.end(Ending(ending))
        checker = Checker(Settings(contracts=contracts))
        found = [each for seen in traffic.observations() for each in checker.feed(seen)] + checker.finish()
        own = [each for each in found if each.code == "TST001"]
        return Checked([each.message for each in own], checker.tallies().get("TST001"), found, checker)

    return check
