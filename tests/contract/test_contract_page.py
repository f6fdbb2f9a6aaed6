"""docs/contracts.md: its contracts and primitives do what their examples say; its tutorial shows printed output."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from wiretape.checker.contract_examples import check_examples, find_in_example
from wiretape.cli import wiretape
from wiretape.contract import CodeUse, load_contract
from wiretape.contract.contract_builder import PRIMITIVES
from wiretape.traffic_builder import TrafficBuilder

PAGE = Path(__file__).parents[2] / "docs" / "contracts.md"
PRIMITIVE_RULES = Path(__file__).with_name("primitives.toml").read_text("utf-8")
"""The contract `chat`, and a rule for each primitive, with examples that break it and keep it; each is tested alone."""


def contracts_on_page() -> list[str]:
    """Return the text of each contract; rules alone come after the contract that they belong to."""
    texts, head = [], ""
    shown = re.findall(r"^```toml\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    for text in (*shown, *re.split(r"^(?=\[\[rule\]\]$)", PRIMITIVE_RULES, flags=re.MULTILINE)):
        if "[[rule]]" not in text and "[operations." not in text:
            continue
        head = text if text.startswith("contract =") else head
        texts.append(text if text == head else f"{head}\n{text}")
    return texts


CONTRACTS = contracts_on_page()


@pytest.mark.parametrize("number", range(len(CONTRACTS)))
def test_every_example_does_what_it_says_in_chunks_of_any_size(number, tmp_path):
    path = tmp_path / "shown.toml"
    path.write_text(CONTRACTS[number], "utf-8")
    (module,) = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    (tmp_path / "chat_rules.py").write_text(module, "utf-8")
    contract = load_contract(str(path), code=CodeUse.RUN)
    assert [result.problem for result in check_examples(contract) if result.problem] == []
    for example in contract.examples:
        whole, _ = find_in_example(contract, example)
        for piece in (1, 7):
            found, _ = find_in_example(contract, example, piece)
            assert [(each.code, each.event, each.message) for each in found] == [
                (each.code, each.event, each.message) for each in whole
            ]


def test_every_primitive_is_on_the_page_as_in_a_tested_rule():
    lines = re.findall(r"^`.* = .*`$", PAGE.read_text("utf-8"), re.MULTILINE)
    shown = [fragment for line in lines for fragment in re.findall(r"`([^`]+)`", line)]
    assert {fragment.partition(" ")[0] for fragment in shown} == set(PRIMITIVES)
    tested = "\n".join(text for text in CONTRACTS if '"chat"' in text).splitlines()
    assert [fragment for fragment in shown if fragment not in tested] == []
    assert all("keeps" in text for text in CONTRACTS[2:])


def test_the_tutorial_shows_what_the_commands_print(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "deployments.toml").write_text(CONTRACTS[0], "utf-8")
    traffic = TrafficBuilder()
    stream = traffic.request("GET", "/deployments/7/log").respond_stream()
    for number, kind in enumerate(["queued", "step.started", "step.finished"], 1):
        stream.send(f'id: {number}\ndata: {{"kind": "{kind}", "number": 1}}\n\n'.encode())
    stream.end()
    traffic.write("run.db")
    page = PAGE.read_text("utf-8")

    tested = CliRunner().invoke(wiretape, ["contract", "test", "deployments.toml"])
    assert tested.exit_code == 0
    assert f"$ wiretape contract test deployments.toml\n{tested.output}```" in page

    report = CliRunner().invoke(wiretape, ["report", "run.db", "--contract", "deployments.toml"])
    assert report.exit_code == 1
    assert "\n".join(report.output.splitlines()[:2]) in page
