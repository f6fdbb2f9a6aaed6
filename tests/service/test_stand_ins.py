"""How `wiretape serve` finds the stand-in of a contract: by the entry points of installed packages."""

import sys
from types import ModuleType

import pytest
from click.testing import CliRunner

from wiretape import __version__
from wiretape.cli import wiretape
from wiretape.installed_parts import load_part
from wiretape_replay import ServeOptions
from wiretape_replay.stand_in import STAND_INS, StandIn


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Let a package be installed that has these stand-ins, by the name of the contract."""
    monkeypatch.syspath_prepend(tmp_path)

    def install(name, **stand_ins):
        folder = tmp_path / f"{name}-{__version__}.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {__version__}\n", "utf-8")
        lines = (f"{contract} = {place}\n" for contract, place in stand_ins.items())
        (folder / "entry_points.txt").write_text(f"[{STAND_INS}]\n{''.join(lines)}", "utf-8")

    return install


@pytest.fixture
def tickets(install, monkeypatch):
    """An installed package with the stand-in of a contract `tickets`."""
    module = ModuleType("tickets_stand_in")
    module.STAND_IN = StandIn(
        serve=lambda *_, **__: None,
        default_scenario="open",
        scenarios=lambda: [("open", "A ticket is opened")],
        assumptions=lambda: {"Assumptions": [("paths", "Assumed: as today.")]},
        read_settings=lambda service: {"settings": service},
    )
    monkeypatch.setitem(sys.modules, module.__name__, module)
    install("tickets", tickets="tickets_stand_in:STAND_IN")
    return module.STAND_IN


def serve(*options):
    done = CliRunner().invoke(wiretape, ["serve", *options])
    return done.exit_code, done.output


def test_without_a_stand_in_the_command_says_so_in_one_sentence(install):
    install("wiretape")  # takes precedence over the installed one

    said = "No installed contract has a stand-in: install a package with an entry point in wiretape.stand_ins."
    for options in (["hello"], ["--list"], ["--assumptions"]):
        assert serve(*options) == (2, f"Error: {said}\n")
    assert serve("--help")[0] == 0


def test_the_contract_chooses_among_several_stand_ins(tickets):
    assert serve("--list") == (2, "Error: Several contracts have a stand-in: choose agent-sessions or tickets.\n")
    assert serve("--list", "--contract", "tickets") == (0, "open  A ticket is opened\n")
    assert serve("--assumptions", "--contract", "tickets") == (0, "Assumptions:\n  paths  Assumed: as today.\n")
    assert serve("--list", "--contract", "agent-sessions")[1].startswith("hello ")
    assert serve("--contract", "ticket") == (
        2,
        "Error: No contract ticket with a stand-in is installed; did you mean tickets?\n",
    )
    options = ServeOptions(contract="tickets", service="x")
    assert (options.stand_in, options.settings) == (tickets, {"settings": "x"})


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("no_such_module:STAND_IN", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("sys:version", "TypeError: sys:version is not a StandIn"),
    ],
)
def test_a_broken_package_is_one_sentence_and_disturbs_no_other(install, place, why):
    install("broken", broken=place)

    assert serve("--contract", "broken", "--list") == (
        2,
        f"Error: The stand-in of the contract broken cannot be loaded ({why}): repair its package.\n",
    )
    assert load_part(STAND_INS, "stand-in", StandIn, "agent-sessions").default_scenario == "hello"
