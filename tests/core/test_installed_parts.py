"""How commands find the parts of contracts: by the entry points of installed packages."""

import sys
from types import ModuleType

import pytest
from click.testing import CliRunner

from wiretape import __version__
from wiretape.cli import wiretape
from wiretape_inspect.probe.probe_case import SUITES
from wiretape_replay import ServeOptions
from wiretape_replay.stand_in import STAND_INS, StandIn

COMMANDS = [("serve", STAND_INS, "stand-in"), ("probe", SUITES, "probe suite")]


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Install a package with entry points in a group, in a folder of its own."""

    def install(name, group, **parts):
        folder = tmp_path / name / f"{name}-{__version__}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: {__version__}\n", "utf-8")
        lines = (f"{contract} = {place}\n" for contract, place in parts.items())
        (folder / "entry_points.txt").write_text(f"[{group}]\n{''.join(lines)}", "utf-8")
        monkeypatch.syspath_prepend(folder.parent)

    return install


def run(*args):
    done = CliRunner().invoke(wiretape, args)
    return done.exit_code, done.output


@pytest.mark.parametrize(("command", "group", "noun"), COMMANDS)
def test_a_contract_without_the_part_is_one_sentence(install, command, group, noun):
    install("wiretape", "other")  # takes precedence over the installed one

    said = f"Error: No installed contract has a {noun}: install a package with an entry point in {group}.\n"
    assert run(command, "--list") == (2, said)
    assert run(command, "--help")[0] == 0


@pytest.mark.parametrize(("command", "group", "noun"), COMMANDS)
def test_the_option_chooses_among_several_contracts(install, command, group, noun):
    alone = run(command, "--list")
    install("tickets", group, tickets="no_such_module:PART")

    assert run(command, "--list") == (2, f"Error: Several contracts have a {noun}: choose agent-sessions or tickets.\n")
    assert run(command, "--list", "--contract", "agent-sessions") == alone
    assert alone[0] == 0
    assert run(command, "--contract", "ticket") == (
        2,
        f"Error: No contract ticket with a {noun} is installed; did you mean tickets?\n",
    )


@pytest.mark.parametrize(("command", "group", "noun"), COMMANDS)
@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("no_such_module:PART", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("sys:version", "TypeError: sys:version is not a "),
    ],
)
def test_a_broken_package_is_one_sentence(install, command, group, noun, place, why):
    install("broken", group, broken=place)

    status, output = run(command, "--contract", "broken", "--list")
    assert (status, output.count("\n")) == (2, 1)
    assert output.startswith(f"Error: The {noun} of the contract broken cannot be loaded ({why}")


@pytest.fixture
def tickets(monkeypatch):
    """A module with a stand-in."""
    module = ModuleType("tickets_stand_in")
    module.STAND_IN = StandIn(
        contract="sse",
        serve=lambda *_, **__: None,
        default_scenario="open",
        scenarios=lambda: [("open", "A ticket is opened")],
        assumptions=lambda: {"Assumptions": [("paths", "Assumed: as today.")]},
        read_settings=lambda service: {"settings": service},
    )
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def test_a_package_can_bring_a_stand_in(install, tickets):
    install("tickets", STAND_INS, tickets="tickets_stand_in:STAND_IN")

    assert run("serve", "--list", "--contract", "tickets") == (0, "open  A ticket is opened\n")
    assert run("serve", "--assumptions", "--contract", "tickets") == (0, "Assumptions:\n  paths  Assumed: as today.\n")
    options = ServeOptions(contract="tickets", service="x")
    assert (options.stand_in, options.settings) == (tickets.STAND_IN, {"settings": "x"})


def test_one_contract_in_several_packages_is_an_error(install, tickets):
    install(tickets.__name__, STAND_INS, **{"agent-sessions": "tickets_stand_in:STAND_IN"})

    status, output = run("serve", "--list")
    assert status == 2
    assert "have a contract agent-sessions each: uninstall one of them." in output
