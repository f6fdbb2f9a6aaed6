"""Stand-ins: services that play scenarios.  They belong to contracts, which name them by an entry point."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wiretape.contract import load_contract
from wiretape.errors import InputError
from wiretape.installed_parts import load_part
from wiretape.safe_text import shorten
from wiretape_replay.channel.channel_log import ChannelLog
from wiretape_replay.channel.channel_streams import ChannelStreams
from wiretape_replay.client_verdict.client_checker import ClientChecker
from wiretape_replay.faults.fault_script import FaultScript
from wiretape_replay.offline_server import RunningServer
from wiretape_replay.replayed_contracts import ReplayedContracts
from wiretape_replay.server_options import (
    ACCESS,
    FAULTS_OPTION,
    SERVING,
    TIME,
    check_choices,
    fault_script,
    option,
)
from wiretape_replay.service_clock import Clock

STAND_INS = "wiretape.stand_ins"
"""The group of entry points; each names a `StandIn`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service(RunningServer):
    """A stand-in that runs."""

    key: str
    """A valid bearer key, with all scopes if there is one."""
    clock: Clock
    logs: Mapping[str, ChannelLog]
    """The events of each channel, by its name."""
    streams: ChannelStreams


@dataclass(frozen=True, slots=True, kw_only=True)
class StandIn:
    """What a contract has to provide so that `wiretape serve` plays its service.  All functions raise InputError."""

    contract: str
    """The name of the contract whose service it is."""
    serve: Callable[..., AbstractAsyncContextManager[Service]]
    """Serves a scenario; has the parameters of `serve_scenario`, except that all of them are given."""
    default_scenario: str
    scenarios: Callable[[], Sequence[tuple[str, str]]]
    """The bundled scenarios, in the order of the list: their names and titles."""
    assumptions: Callable[[], Mapping[str, Sequence[tuple[str, str]]]]
    """What it assumes where the specification is silent, by title: subjects, each with a sentence."""
    read_settings: Callable[[Any], Any]
    """Returns the settings that the option `service` gives: None, a file, TOML text, a dictionary, or its own type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """How a stand-in is played.  Raises InputError for values that are not valid."""

    contract: str | None = option(
        None, "--contract", SERVING, "Contract whose stand-in to serve, if several have one.", metavar="NAME"
    )
    seed: int = option(
        0,
        "--seed",
        SERVING,
        "Seed for all generated ids.  [default: random]",
        metavar="N",
        type=int,
        command_default=None,
    )
    clock: str = option(
        "real",
        "--clock",
        TIME,
        "Virtual time jumps to the next event, but stands still while the service waits for clients.",
        choices=("real", "virtual"),
    )
    service: Any = option(
        None,
        "--service",
        ACCESS,
        "TOML file with keys, scopes, limits and assumptions.  [default: one key, the published limits]",
        is_file=True,
    )
    """In Python also the text of the file, the same as a dictionary, or the settings of the stand-in."""
    faults: "FaultScript | Path | str | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None" = option(
        None, *FAULTS_OPTION, is_file=True
    )
    """In Python also the text of the file, the same as a dictionary, one fault, or a list of faults."""

    stand_in: StandIn = field(init=False, repr=False, compare=False)
    settings: Any = field(init=False, repr=False, compare=False)
    """The settings of the stand-in, parsed."""
    contracts: ReplayedContracts = field(init=False, repr=False, compare=False)
    """That of the stand-in."""
    script: FaultScript = field(init=False, repr=False, compare=False)
    """The faults to inject, parsed."""

    def __post_init__(self) -> None:
        check_choices(self)
        if not isinstance(self.seed, int):
            raise InputError(f"Invalid seed {shorten(repr(self.seed), 60)}: expected a whole number.")
        stand_in = find_stand_in(self.contract)
        object.__setattr__(self, "stand_in", stand_in)
        object.__setattr__(self, "settings", stand_in.read_settings(self.service))
        contracts = ReplayedContracts([load_contract(stand_in.contract)], is_chosen=False)
        object.__setattr__(self, "contracts", contracts)
        object.__setattr__(self, "script", fault_script(self.faults, contracts))

    @property
    def is_virtual(self) -> bool:
        """Whether time is virtual."""
        return self.clock == "virtual"


def find_stand_in(contract: str | None = None) -> StandIn:
    """Return the stand-in of an installed contract; None: of the only one that has any.  Raises InputError."""
    return load_part(STAND_INS, "stand-in", StandIn, contract)


@asynccontextmanager
async def serve_scenario(
    scenario: Any = None,
    options: ServeOptions | None = None,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    log: Callable[[str], None] | None = None,
    checker: ClientChecker | None = None,
    token: str | None = None,
) -> AsyncIterator[Service]:
    """Serve a scenario: the name of a bundled one, a file, TOML text, or a `Scenario` of the stand-in.

    None is the default scenario, port 0 a free port.  `log` receives a line for each request.  `checker` checks the
    client, and has finished after the block.  `token` is the control token; None generates one.

    Raises InputError for a scenario or an address that cannot be used.
    """
    options = options or ServeOptions()
    chosen = options.stand_in.default_scenario if scenario is None else scenario
    serving = options.stand_in.serve(chosen, options, host=host, port=port, log=log, checker=checker, token=token)
    async with serving as service:
        yield service
