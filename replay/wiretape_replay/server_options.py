"""Options of replays and of the stand-in, declared once for the commands, the Python API and the pytest plugin."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from wiretape.contract import CodeUse, Contract, load_contract
from wiretape.contract.contract_builder import load_recorded
from wiretape.contract.contract_facts import ContractChoice, detected_contracts
from wiretape.contract.contract_files import BUNDLED
from wiretape.errors import InputError
from wiretape.input_validation import Source
from wiretape.json_path import JsonPath
from wiretape.observations import is_header_name
from wiretape.recording import Recording
from wiretape.safe_text import shorten
from wiretape.toml_files import is_toml_text, parse_toml, read_toml
from wiretape.units import parse_speed
from wiretape_replay.access.access_settings import AccessPolicy, AccessSettings
from wiretape_replay.faults.fault_script import FaultScript, decode_fault_script
from wiretape_replay.replayed_contracts import ReplayedContracts
from wiretape_replay.verbatim.request_matching import Matching, Order, RepeatMode

SERVING = "What to serve, and where"
TIME = "Time"
MATCHING = "Matching requests with recorded responses (except streams in channel mode)"
ACCESS = "Authentication and limits"
FAULTS = "Faults"
"""Groups of options in the help."""


def option(default: Any, flag: str, group: str, help: str, **attributes: Any) -> Any:  # noqa: A002 - as in click
    """A field that is also an option of the command.

    `attributes` may be `metavar`, `choices`, `is_file`, `type`, and `command_default`, where the command has another.
    """
    return field(default=default, metadata={"flag": flag, "group": group, "help": help, **attributes})


def check_choices(options: Any) -> None:
    """Raise InputError if a field of a dataclass does not have one of its choices."""
    for each in fields(options):
        if "choices" in each.metadata:
            check_choice(each.name, getattr(options, each.name), each.metadata["choices"])


FAULTS_OPTION = ("--faults", FAULTS, "Fault script (TOML) to apply.")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOptions:
    """How a recording is replayed.  Raises InputError for values that are not valid."""

    mode: str = option(
        "channel",
        "--mode",
        SERVING,
        "Serve streams from a playhead, or everything as recorded.",
        choices=("channel", "verbatim"),
    )
    contract: "Contract | Path | str | Sequence[Contract | Path | str] | None" = option(
        None,
        "--contract",
        SERVING,
        "Contract of the streams; `wiretape contract list` prints names.  [default: that of the configuration or the "
        "recording, or one that is detected by its operations, or sse]",
        metavar="NAME|FILE",
    )
    speed: str | float = option(
        "max",
        "--speed",
        TIME,
        "Replay at the recorded speed, N times as fast, or without delays.",
        metavar="1|N|max",
        command_default="1",
    )
    paused: bool = option(False, "--paused", TIME, "Start paused; move the playheads with `wiretape control`.")
    playhead: str = option(
        "channel",
        "--playhead",
        TIME,
        "One playhead per channel, or per stream that starts without a cursor.",
        choices=("channel", "connection"),
    )
    ignore_query: Sequence[str] | str = option(
        (), "--ignore-query", MATCHING, "Ignore this query parameter. Repeatable.", metavar="NAME"
    )
    ignore_body: Sequence[str] | str = option(
        (),
        "--ignore-body",
        MATCHING,
        "Ignore this JSON path in bodies, such as '$.at', '$.items[*].id' or '$..id'. Repeatable.",
        metavar="PATH",
    )
    match_header: Sequence[str] | str = option(
        (), "--match-header", MATCHING, "Also match this request header. Repeatable.", metavar="NAME"
    )
    order: str = option(
        Order.KIND.value,
        "--order",
        MATCHING,
        "Keep the recorded order within each kind of request, or across all requests.",
        choices=tuple(map(str, Order)),
    )
    repeat: str = option(
        RepeatMode.REFUSE.value,
        "--repeat",
        MATCHING,
        "After the last recorded response: send status 501, repeat the last response, or start again from the first.",
        choices=tuple(map(str, RepeatMode)),
    )
    service: "AccessPolicy | Path | str | Mapping[str, Any] | None" = option(
        None,
        "--service",
        ACCESS,
        "TOML file with keys, scopes, limits and workspaces.  [default: any key is valid; in channel mode, "
        "requests need a key if the recorded service required one]",
        is_file=True,
    )
    """In Python also the text of the file, or the same as a dictionary."""
    limits: bool = option(
        False,
        "--limits",
        ACCESS,
        "Enforce the published limits for each tenant. With --service, the limits apply even without this option, "
        "unless the service file overrides them.",
    )
    no_auth: bool = option(False, "--no-auth", ACCESS, "Accept requests without a key.")
    faults: "FaultScript | Path | str | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None" = option(
        None, *FAULTS_OPTION, is_file=True
    )
    """In Python also the text of the file, the same as a dictionary, one fault, or a list of faults."""

    speed_factor: float = field(init=False, repr=False, compare=False)
    """The multiple of the recorded speed; infinity: at once."""
    matching: Matching = field(init=False, repr=False, compare=False)
    access: AccessPolicy | AccessSettings | None = field(init=False, repr=False, compare=False)
    """The content of `service`, parsed."""
    script: FaultScript = field(init=False, repr=False, compare=False)
    """The faults to inject, parsed."""
    loaded_contracts: tuple[Contract, ...] = field(init=False, repr=False, compare=False)
    """The contracts, if any were chosen."""
    _faults_source: Source | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_choices(self)
        if self.mode == "verbatim" and (self.paused or self.playhead == "connection"):
            raise InputError(
                "Verbatim mode has no playhead: leave out the options paused and playhead, or use channel mode."
            )
        service = self.service
        is_file = service is not None and not isinstance(service, AccessPolicy)
        script, source = _read_faults(self.faults)
        given = self.contract if isinstance(self.contract, list | tuple) else [self.contract] if self.contract else []
        parsed = {
            "loaded_contracts": tuple(map(_load_contract, given)),
            "_faults_source": source,
            "speed_factor": parse_speed(self.speed),
            "matching": self._matching(),
            "access": AccessSettings.decode(*toml_document("service", service)) if is_file else service,
            "script": script,
        }
        for name, value in parsed.items():
            object.__setattr__(self, name, value)

    def access_policy(self, contracts: ReplayedContracts, *, recorded_keys: bool) -> AccessPolicy | None:
        """How requests are authenticated and limited; None: not at all.

        `recorded_keys` says whether the recorded service required keys, which is the default.  Raises InputError for
        settings that do not fit the contracts.
        """
        if self.limits and not contracts.limits:
            raise InputError(f"There are no limits in {contracts.names}: leave out the option limits.")
        is_verbatim = self.mode == "verbatim"
        if is_verbatim and self.access is None and not self.limits:
            return None
        policy = self.access.policy(contracts) if isinstance(self.access, AccessSettings) else self.access
        policy = policy or AccessPolicy(authentication=recorded_keys and not is_verbatim)
        if self.limits and not policy.limits:
            policy = replace(policy, limits=contracts.limits)
        return replace(policy, authentication=False) if self.no_auth else policy

    def contracts_for(self, recording: Recording) -> ReplayedContracts:
        """Return the contracts that were chosen, or that the recording names, or else the one that it suggests.

        Raises InputError for faults that they do not allow.
        """
        stored, origin = recording.info.contracts, str(recording.path)
        chosen = self.loaded_contracts or load_recorded(stored, origin, CodeUse.SKIP)
        contracts = ReplayedContracts(chosen or _detect_contracts(recording), is_chosen=bool(chosen))
        recording.contracts = ContractChoice(contracts.contracts)
        if self._faults_source is not None:
            self.script.check_contracts(self._faults_source, contracts)
        return contracts

    def matching_for(self, contracts: ReplayedContracts) -> Matching:
        """Return how requests are compared: without what the contracts say that clients make up."""
        return replace(
            self.matching, ignored_body=(*self.matching.ignored_body, *map(JsonPath.of, contracts.client_ids))
        )

    def _matching(self) -> Matching:
        ignored_query = frozenset(string_list("ignore_query", self.ignore_query))
        if "" in ignored_query:
            raise InputError("Invalid ignore_query '': expected the name of a query parameter.")
        headers = string_list("match_header", self.match_header)
        for name in headers:
            if not is_header_name(name):
                raise InputError(f"Invalid match_header {shorten(repr(name), 60)}: expected the name of a header.")
        return Matching(
            ignored_query,
            tuple(map(JsonPath.of, string_list("ignore_body", self.ignore_body))),
            tuple(dict.fromkeys(name.lower() for name in headers)),
            Order(self.order),
            RepeatMode(self.repeat),
        )


def _load_contract(given: object) -> Contract:
    """A contract by its name or in a file; its rules are not needed, so its code does not run.  Raises InputError."""
    return given if isinstance(given, Contract) else load_contract(str(given), code=CodeUse.SKIP)


def _detect_contracts(recording: Recording) -> Sequence[Contract]:
    """Return the contracts that are known by their operations in the recording, or else that of any event stream."""
    detected = detected_contracts()
    matches = (detected.find(each.request.method, each.request.target) for each in recording.exchanges())
    names = dict.fromkeys(match.contract.name for match in matches if match is not None)
    return [load_contract(name) for name in names or BUNDLED]


def fault_script(value: object, contracts: ReplayedContracts | None = None) -> FaultScript:
    """The faults: a file, its text, a dictionary, one fault or a list of faults.

    Without contracts, only what is the same for every contract is checked.  Raises InputError.
    """
    script, source = _read_faults(value)
    if source is not None and contracts is not None:
        script.check_contracts(source, contracts)
    return script


def _read_faults(value: object) -> tuple[FaultScript, Source | None]:
    """The faults, for any contract, and where they were read; None if they need no check."""
    if value is None:
        return FaultScript(), None
    if isinstance(value, FaultScript):
        return value, None
    if isinstance(value, Mapping) and "do" in value:
        value = [value]
    if isinstance(value, Sequence) and not isinstance(value, str):
        value = {"fault": [dict(fault) if isinstance(fault, Mapping) else fault for fault in value]}
    document, name = toml_document("faults", value, ", or a list of faults")
    source = Source(name)
    return decode_fault_script(document, source), source


def toml_document(option: str, value: object, more: str = "") -> tuple[Mapping[str, Any], str]:
    """The TOML document that an option gives as a file, as text or as a dictionary, and what errors call it.

    `more` names what else the option accepts.  Raises InputError.
    """
    if isinstance(value, str) and is_toml_text(value):
        return parse_toml(value, option), option
    if isinstance(value, str | Path) and value != "":
        return read_toml(Path(value)), str(value)
    if isinstance(value, Mapping):
        return value, option
    got = shorten(repr(value), 60)
    raise InputError(f"Invalid {option} {got}: expected a file, TOML text{',' if more else ' or'} a dictionary{more}.")


def check_choice(option: str, value: object, choices: Sequence[str]) -> None:
    """Raise InputError for a value that is not one of `choices`."""
    if value not in choices:
        *others, last = choices
        raise InputError(f"Invalid {option} {shorten(repr(value), 60)}: expected {', '.join(others)} or {last}.")


def string_list(option: str, value: object) -> Sequence[str]:
    """A list of strings; a single string becomes a list of one.  Raises InputError."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Sequence) or not all(isinstance(text, str) for text in value):
        raise InputError(f"Invalid {option} {shorten(repr(value), 60)}: expected a list of strings.")
    return value
