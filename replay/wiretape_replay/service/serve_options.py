"""Options of a service played from a scenario: one type for `wiretape serve`, the Python API and the pytest plugin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wiretape.errors import InputError
from wiretape.safe_text import shorten
from wiretape_replay.faults.fault_script import FaultScript
from wiretape_replay.replay_options import check_choice, fault_script, toml_document
from wiretape_replay.service.assumptions import ServiceSettings, decode_service_settings, default_settings

CLOCKS = ("virtual", "real")


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """How a service is played.  Raises InputError for values that are not valid."""

    clock: str = "real"
    """`virtual`: time advances to the next event at once; `real`: wait for it."""
    seed: int = 0
    """Seed for generated ids."""
    service: "ServiceSettings | Path | str | Mapping[str, Any] | None" = None
    """Keys, scopes, limits and assumptions: a file, its text, or the same as a dictionary."""
    faults: "FaultScript | Path | str | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None" = None
    """Faults to inject: a file, its text, the same as a dictionary, one fault, or a list of faults."""

    settings: ServiceSettings = field(init=False, repr=False, compare=False)
    """The service settings, parsed."""
    script: FaultScript = field(init=False, repr=False, compare=False)
    """The faults to inject, parsed."""

    def __post_init__(self) -> None:
        check_choice("clock", self.clock, CLOCKS)
        if not isinstance(self.seed, int):
            raise InputError(f"Invalid seed {shorten(repr(self.seed), 60)}: expected a whole number.")
        settings = self.service
        if settings is None:
            settings = default_settings()
        elif not isinstance(settings, ServiceSettings):
            settings = decode_service_settings(*toml_document("service", settings))
        object.__setattr__(self, "settings", settings)
        object.__setattr__(self, "script", fault_script(self.faults))

    @property
    def is_virtual(self) -> bool:
        """Whether time is virtual."""
        return self.clock == "virtual"
