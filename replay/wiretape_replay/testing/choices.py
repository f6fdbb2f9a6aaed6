"""What a test asks for, from keywords to options."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from wiretape.config import NEVER, Config
from wiretape.errors import InputError
from wiretape.rules import Severity
from wiretape.rules.selection import UnknownCodeError, codes_of
from wiretape.safe_text import closest_match, printable
from wiretape.toml import Table, TomlFile
from wiretape.toml_files import is_toml_text
from wiretape_replay.answers.settings import service_in, treatment_of
from wiretape_replay.faults.reading import script_in
from wiretape_replay.faults.script import Script
from wiretape_replay.judging.reports import CLIENT_RULES
from wiretape_replay.playback_speed import PlaybackSpeed
from wiretape_replay.serving import Options
from wiretape_replay.tape.matching import Matching, Order, Repeat

_MODES = ("session", "tape")
_PLAYHEADS = ("session", "connection")


class Given(TypedDict, total=False):
    """What can be asked for besides the recording; most of it is what `wiretape replay` has options for."""

    mode: str
    """`session` (the default) or `tape`."""
    speed: str | float
    """`max` (the default), or so many times as fast as recorded."""
    paused: bool
    """Whether playheads stand until the test moves them."""
    playhead: str
    """`session` (the default), or `connection` for one of its own for each stream that begins anew."""
    faults: "Path | str | Mapping[str, Any] | Sequence[Mapping[str, Any]] | None"
    """What goes wrong: a file, its text, the same as a dictionary, one fault, or a list of faults."""
    service: "Path | str | Mapping[str, Any] | None"
    """How clients are treated: a file, its text, or the same as a dictionary."""
    limits: bool
    """Whether the published limits are counted."""
    no_auth: bool
    """Whether no key is asked for."""
    ignore_query: Sequence[str]
    ignore_body: Sequence[str]
    match_header: Sequence[str]
    order: str
    repeat: str
    fail_on: str | None
    """The test fails by a finding as bad as this or worse: `error` (the default), `warning`, `note`, or `never`."""
    allow: Sequence[str]
    """Rules that may be broken: codes, or how they begin."""
    allow_misses: bool
    """Whether requests may have no match."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The same, understood."""

    recording: Path
    options: Options
    config: Config
    """Of the rules."""
    fail_on: str
    rules: tuple[str, ...]
    """The codes of the client's rules that must not be broken."""
    allow_misses: bool

    @classmethod
    def of(
        cls, recording: Path | str, given: Mapping[str, Any], config: Config, find: Callable[[Path], Path] = Path
    ) -> "Choices":
        """Understand what is `Given`.  `find` says which file is meant by a path.  Raises InputError."""
        refuse_others(given, Given.__annotations__, "A replay")
        mode = _one_of("mode", given, _MODES)
        own = _one_of("playhead", given, _PLAYHEADS) == "connection"
        paused = bool(given.get("paused"))
        if mode == "tape" and (paused or own):
            raise InputError("Tape mode has no playhead: leave paused and playhead out, or choose mode='session'.")
        service = given.get("service")
        options = Options(
            mode,
            PlaybackSpeed.of(given.get("speed", "max")),
            paused=paused,
            own_playhead=own,
            matching=_matching(given),
            service=treatment_of(
                service_in(table_given("service", service, find)) if service is not None else None,
                mode,
                limits=bool(given.get("limits")),
                no_auth=bool(given.get("no_auth")),
            ),
            faults=faults_in(given.get("faults"), find),
        )
        return cls(
            find(Path(recording)),
            options,
            config,
            threshold(given.get("fail_on"), config),
            rules(given, config),
            bool(given.get("allow_misses")),
        )


def refuse_others(given: Iterable[str], known: Collection[str], what: str) -> None:
    """Raises InputError for an option that `what` does not have."""
    for name in given:
        if name not in known:
            similar = closest_match(name, known)
            guess = f"did you mean {similar}?" if similar else f"there are {', '.join(known)}."
            raise InputError(f"{what} has no option {printable(name)}; {guess}")


def _one_of(name: str, given: Mapping[str, Any], words: Sequence[str]) -> str:
    value = given.get(name, words[0])
    if value not in words:
        raise InputError(f"{name}={value!r} is none of these: {', '.join(words)}.")
    return str(value)


def _matching(given: Mapping[str, Any]) -> Matching:
    return Matching.of(
        ignore_query=_texts("ignore_query", given),
        ignore_body=_texts("ignore_body", given),
        match_headers=_texts("match_header", given),
        order=given.get("order", Order.KIND),
        repeat=given.get("repeat", Repeat.REFUSE),
    )


def _texts(name: str, given: Mapping[str, Any]) -> Sequence[str]:
    """A list of texts; a single text is a list of one."""
    value: object = given.get(name, ())
    if isinstance(value, str):
        return [value]
    if not isinstance(value, Sequence) or not all(isinstance(text, str) for text in value):
        raise InputError(f"{name}={value!r} is no list of texts.")
    return value


def faults_in(given: object, find: Callable[[Path], Path]) -> Script:
    """A script, however it is given; a single fault is one, too."""
    if given is None:
        return Script()
    if isinstance(given, Mapping) and "do" in given:
        given = [given]
    if isinstance(given, Sequence) and not isinstance(given, str):
        given = {"fault": [dict(fault) if isinstance(fault, Mapping) else fault for fault in given]}
    return script_in(table_given("faults", given, find, " and no list of faults"))


def table_given(name: str, given: object, find: Callable[[Path], Path], nor: str = "") -> Table:
    """All of a file, however it is given: by its name, as its text, or as a dictionary like it.

    `name` is that of the option, `nor` what else it could be.  Raises InputError.
    """
    if isinstance(given, str) and is_toml_text(given):
        return TomlFile.of(given, Path(name)).table()
    if isinstance(given, str | Path):
        return TomlFile.load(find(Path(given))).table()
    if isinstance(given, Mapping):
        return TomlFile(Path(name), given, {}).table()
    raise InputError(f"{name}={given!r} is no file, no TOML{',' if nor else ' and'} no dictionary{nor}.")


def threshold(given: object, config: Config) -> str:
    """What a test fails by.  Raises InputError."""
    words = [*(severity.value for severity in Severity), NEVER]
    chosen = str(given or config.fail_on or Severity.ERROR.value)
    if chosen not in words:
        raise InputError(f"fail_on={chosen!r} is none of these: {', '.join(words)}.")
    return chosen


def rules(given: Mapping[str, Any], config: Config) -> tuple[str, ...]:
    """The codes of the client's rules that must not be broken.  Raises InputError."""
    try:
        allowed = {code for prefix in _texts("allow", given) for code in codes_of(prefix)}
    except UnknownCodeError as error:
        raise InputError(f"allow: {printable(str(error))}") from None
    asked = config.asked() - allowed
    return tuple(code for code in CLIENT_RULES if code in asked)
