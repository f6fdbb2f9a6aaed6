"""The tables of a contract file: which keys they have, and which values fit."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from wiretape.observations import Ending
from wiretape.rules.catalogue import Basis, Scope
from wiretape.rules.finding import Party, Severity

MOST_ENTITIES = 50
"""Entities of a contract, with those of the contracts that it extends."""
MOST_FILES = 50
"""Files of a contract."""
MOST_CHARACTERS = 4_000_000
"""Characters of all files of a contract: recordings store them."""
MOST_RULES = 300
"""Rules of a contract, with those of the contracts that it extends."""
_Short = Annotated[str, Meta(min_length=1, max_length=300)]
_Prose = Annotated[str, Meta(min_length=1, max_length=2000)]
_Body = Annotated[str, Meta(max_length=50_000)]
_Code = Annotated[str, Meta(pattern="^[A-Z]{2,12}[0-9]{3}$")]
_CodeOfProblem = Annotated[str, Meta(pattern="^[A-Z]{2,12}[0-9]{3}( .+)?$", max_length=100)]
"""A code, or a code and the subject of its problem."""
_JsonPath = Annotated[str, Meta(pattern=r"^\$(\.[A-Za-z_][A-Za-z0-9_]*|\[\*\])+$", max_length=200)]
_Kebab = Annotated[str, Meta(pattern="^[a-z0-9]+(-[a-z0-9]+)*$", max_length=60)]
_Status = Annotated[int, Meta(ge=100, le=599)]
_ErrorStatus = Annotated[int, Meta(ge=400, le=599)]
_Several = Annotated[list[_Short], Meta(min_length=1, max_length=100)]
Names = _Short | _Several
"""One text, or a list of them."""
_Seconds = Annotated[float, Meta(gt=0, le=1_000_000)]
JsonType = Literal["string", "integer", "number", "boolean", "object", "array", "null"]
_Types = JsonType | list[JsonType]
EventFields = Annotated[dict[_Short, _Types | dict[_Short, _Types]], Meta(min_length=1, max_length=100)]
"""The type of each fact; a table has those of some types of events."""
FieldTypes = Names | Annotated[dict[_Short, _Types], Meta(min_length=1, max_length=100)]
"""Pointers to fields, or a table with the type of each."""


class OperationTable(Struct, forbid_unknown_fields=True):
    """Requests that the contract applies to."""

    request: _Short
    when: _Short | None = None
    """With which parameter requests belong to it: `query:NAME=VALUE`."""
    cursor: _Short | None = None
    channel: _Short | None = None
    begins: Literal["start", "now"] | None = None
    example: _Short | None = None
    """The target of a request that matches."""
    deltas: _Short | None = None
    stream: bool = True
    open_ended: bool = False


class DeltaTable(Struct, forbid_unknown_fields=True):
    """Which events are deltas, and where they have their text: all of them, or those of some types."""

    types: Names
    text: _Short | Annotated[dict[_Short, _Short], Meta(min_length=1, max_length=100)] | None = None


class EventTable(Struct, forbid_unknown_fields=True, frozen=True):
    """Where events have their facts; None if the file does not say."""

    type: _Short | None = None
    sequence: _Short | None = None
    cursor: _Short | None = None
    channel: _Short | None = None
    durable: Names | None = None
    delta: DeltaTable | None = None
    envelope: Names | None = None
    schemas: _Short | None = None
    """The JSON file with the schemas of types."""


class TypeTable(Struct, forbid_unknown_fields=True):
    """One type of events."""

    durable: bool | None = None
    schema: _Short | dict[str, Any] | None = None
    failure: bool | None = None
    """Whether its events report a failure."""
    idle: bool | None = None
    """Whether nothing happens on the channel after its events."""
    template: dict[str, Any] | None = None
    """What a fault that inserts such an event sends, besides the facts that it sets."""


class ErrorCase(StrEnum):
    """Why a replay or a stand-in refuses a request."""

    MALFORMED = "malformed"
    NO_KEY = "no-key"
    NO_SCOPE = "no-scope"
    LIMIT = "limit"
    UNKNOWN_CHANNEL = "unknown-channel"
    UNKNOWN_CURSOR = "unknown-cursor"


class CodeTable(Struct, forbid_unknown_fields=True):
    """One code of errors."""

    status: _ErrorStatus
    when: ErrorCase | None = None
    message: _Prose = ""
    fields: dict[str, Any] = {}
    """What the error has besides its message."""
    headers: Annotated[dict[str, _Short], Meta(max_length=20)] = {}


class LimitTable(Struct, forbid_unknown_fields=True):
    """A number of requests in a time, and the requests that count."""

    requests: Annotated[int, Meta(ge=1, le=1_000_000_000)]
    seconds: Annotated[int, Meta(ge=1, le=1_000_000_000)]
    counts: Names | None = None


class EntityTable(Struct, forbid_unknown_fields=True):
    """Something that events open, continue and close."""

    opens: Names
    closes: Names
    key: Names | None = None
    continues: Names | None = None
    within: _Short | None = None
    short: _Short | None = None
    """The name in filters, if it is not that of the table."""
    title: _Short | None = None
    """Where the event that opens it has what people call it."""
    parameter: _Short | None = None
    """The name of the parts of paths that have its key."""
    optional_key: _Short | None = None
    """What the key has at its end as well, in events that have it."""
    reopens: bool = False
    """Whether it can be opened again after it was closed."""
    single: bool = False
    """Whether a stream has one such entity at a time, whatever its key."""


class TextTable(Struct, forbid_unknown_fields=True):
    """A text that clients join from deltas."""

    deltas: Names
    final: Names | None = None
    """The types of the event with the whole text."""
    text: _Short | None = None
    """Where that event has it."""
    begins: Names | None = None
    """The types of events after which the text is empty."""
    entity: _Short | None = None
    """The name of the entity that has such a text each."""
    parameter: _Short | None = None


class PartTable(Struct, forbid_unknown_fields=True):
    """A part of the body of an example."""

    text: _Body = ""
    lost: Annotated[int, Meta(ge=0, le=1_000_000)] = 0
    after: Annotated[float, Meta(ge=0, le=1_000_000)] = 0.0


class ExchangeTable(Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One exchange of an example."""

    request: _Short | None = None
    headers: list[_Short] | None = None
    request_body: _Body = ""
    status: _Status = 200
    response_headers: list[_Short] | None = None
    body: _Body = ""
    part: Annotated[list[PartTable], Meta(max_length=50)] = []
    ending: Ending = Ending.COMPLETE

    def __post_init__(self) -> None:
        if self.body and self.part:
            raise ValueError("body and part exclude each other")


class ExampleTable(Struct, forbid_unknown_fields=True, frozen=True):
    """What the requests of examples have if they do not say."""

    headers: list[_Short] = []
    request_body: _Body = ""


Example = _Body | Annotated[list[ExchangeTable], Meta(min_length=1, max_length=20)]
"""The body of one stream, or exchanges."""


class CounterTable(Struct, forbid_unknown_fields=True):
    """A number that increases."""

    fact: _Short
    by_one: bool = False
    starts_at: int | None = None


class UniqueTable(Struct, forbid_unknown_fields=True):
    """A fact, and where it is unique."""

    fact: _Short
    over: Literal["stream", "channel"] = "stream"


class MatchTable(Struct, forbid_unknown_fields=True):
    """Pairs of facts that agree."""

    facts: Annotated[list[tuple[_Short, _Short]], Meta(min_length=1, max_length=20)]
    required: bool = False
    """Whether an event that has the first fact of a pair has the second one, too."""


class NextTable(Struct, forbid_unknown_fields=True):
    """What can follow some events."""

    after: Names
    types: Names


class LastTable(Struct, forbid_unknown_fields=True):
    """What ends a stream."""

    types: Names
    repeats: bool = False
    """Whether other events can follow one that could be the last."""


class EndsTable(Struct, forbid_unknown_fields=True):
    """When a response ends."""

    after: Names
    within: _Seconds


class EchoTable(Struct, forbid_unknown_fields=True):
    """A fact that events repeat from the body of the request."""

    fact: _Short
    request: _Short
    last: bool = False
    """Whether only the last event of a stream repeats it."""


class SameTable(Struct, forbid_unknown_fields=True):
    """A fact, and where it is the same: a stream, a channel or an entity."""

    fact: _Short
    over: _Short = "stream"


class Aspect(StrEnum):
    """One requirement on the life of an entity."""

    OPENS_FIRST = "opens-first"
    """It is opened before it continues or closes."""
    OPENS_ONCE = "opens-once"
    CLOSES_ONCE = "closes-once"
    NOTHING_AFTER = "nothing-after"
    """It does not continue after it was closed."""
    INSIDE_PARENT = "inside-parent"
    """It opens while the entity that it is in is open."""
    CLOSES_BEFORE_PARENT = "closes-before-parent"
    ONE_AT_A_TIME = "one-at-a-time"
    """It opens after the one before was closed, and with the same key."""
    CLOSES = "closes"
    """It is closed before the stream ends."""


class LifecycleTable(Struct, forbid_unknown_fields=True):
    """Requirements on the life of an entity."""

    entity: _Short
    aspects: Aspect | Annotated[list[Aspect], Meta(min_length=1, max_length=20)] | None = None
    """None for all but the one about the end of a stream."""


class JoinedTable(Struct, forbid_unknown_fields=True):
    """The deltas of an entity, and the event with their whole text."""

    entity: _Short
    final: Names
    text: _Short | Annotated[dict[_Short, _Short], Meta(min_length=1, max_length=100)]
    """Where it has the text; a table has the pointers for some types, of which the first that fits counts."""
    deltas: Names = "*"


class ResumeTable(Struct, forbid_unknown_fields=True):
    """What follows a cursor, and the response to one that does not exist."""

    unknown: _Status | None = None
    """The status of the response to an unknown cursor."""
    final: Names | None = None
    """The types of the last event of a channel: once it was seen, all cursors of the channel are known."""

    def __post_init__(self) -> None:
        if (self.unknown is None) != (self.final is None):
            raise ValueError(
                "unknown and final need each other: without the last event, no cursor is known to be unknown"
            )


class Requirement(StrEnum):
    """One requirement on the lines of a stream."""

    UTF8 = "utf-8"
    COMPLETE_EVENTS = "complete-events"
    KNOWN_FIELDS = "known-fields"
    NO_NUL_IN_ID = "no-nul-in-id"
    NO_REPEATED_LINES = "no-repeated-lines"
    HAS_DATA = "has-data"
    NOT_COMPRESSED = "not-compressed"
    USABLE_RETRY = "usable-retry"
    ID_FITS_HEADER = "id-fits-header"
    NO_BLANK_AFTER_COMMENT = "no-blank-after-comment"
    COMMENT_KEEP_ALIVE = "comment-keep-alive"
    JSON_OBJECT = "json-object"
    UNIQUE_KEYS = "unique-keys"
    LF_LINES = "lf-lines"


Value = str | int | bool


class OneOfTable(Struct, forbid_unknown_fields=True):
    """Facts, and the values that they can have, all at once if there are several facts."""

    fact: Names
    values: Annotated[list[Value | list[Value]], Meta(min_length=1, max_length=1000)] | Literal["types"]
    """`types` stands for the names of the tables `types`."""

    def __post_init__(self) -> None:
        if isinstance(self.values, str):
            return
        rows = [len(value) if isinstance(value, list) else 1 for value in self.values]
        if set(rows) != {1 if isinstance(self.fact, str) else len(self.fact)}:
            raise ValueError("expected as many values in each item as there are facts")


class SilenceTable(Struct, forbid_unknown_fields=True):
    """How often a stream has bytes."""

    every: _Seconds
    """The interval of keep-alives, which may be late."""


class ErrorFormatTable(Struct, forbid_unknown_fields=True, frozen=True):
    """Where errors have their facts; None if the file does not say."""

    object: _Short | None = None
    code: _Short | None = None
    message: _Short | None = None
    request_id: _Short | None = None
    codes: Annotated[dict[_Short, _ErrorStatus | CodeTable], Meta(max_length=500)] | None = None
    """The codes, each with its status, or with more about it."""


class ErrorAspect(StrEnum):
    """One requirement on errors."""

    OBJECT = "object"
    """The body has the object of the table `error`."""
    CODE = "code"
    """The code is one of the table `error`."""
    STATUS = "status"
    """The status is that of the code."""


class ErrorTable(Struct, forbid_unknown_fields=True):
    """What error responses have."""

    aspects: ErrorAspect | Annotated[list[ErrorAspect], Meta(min_length=1, max_length=10)] | None = None
    require: FieldTypes | None = None
    keys: Names | None = None
    """The only keys of the body."""
    one_of: OneOfTable | None = None
    unique: _Short | None = None
    having: Names = []
    """Only errors with these fields."""
    codes: Annotated[list[_Short], Meta(max_length=500)] = []
    """Only errors with these codes; empty for all."""
    other_codes: Annotated[list[_Short], Meta(max_length=500)] = []
    """Only errors without these codes."""


class RefusedTable(Struct, forbid_unknown_fields=True):
    """The error in response to a request without a header; any if it has no status."""

    status: Annotated[int, Meta(ge=400, le=599)] | None = None
    code: _Short | None = None

    def __post_init__(self) -> None:
        if self.code is not None and self.status is None:
            raise ValueError("code needs status")


class HeaderTable(Struct, forbid_unknown_fields=True):
    """A header, and what it has to be."""

    name: _Short
    of: Literal["request", "response", "error"] = "response"
    statuses: Annotated[list[_Status], Meta(max_length=100)] = []
    codes: Annotated[list[_Short], Meta(max_length=500)] = []
    value: Names | None = None
    type: Literal["integer"] | None = None
    agrees: _Short | None = None
    refused: bool | RefusedTable = False

    def __post_init__(self) -> None:
        if self.of == "request" and (self.statuses or self.codes or self.agrees is not None):
            raise ValueError("statuses, codes and agrees are for headers of responses")
        if self.of != "request" and self.refused is not False:
            raise ValueError("refused is for headers of requests")
        if self.agrees is not None and self.value is not None:
            raise ValueError("agrees and value exclude each other")


class _AnyRule(Struct, forbid_unknown_fields=True, kw_only=True):
    code: _Code
    name: _Kebab
    clause: _Prose
    keeps: Example | None = None
    also: list[_Code] = []
    severity: Severity = Severity.ERROR
    side: Party | None = None
    basis: Basis = Basis.STATED
    about: _Prose | None = None
    why: _Prose = ""
    fix: _Prose = ""
    on: Names | None = None
    kinds: list[Literal["durable", "delta", "ephemeral"]] = []
    match: tuple[_Short, _Short] | MatchTable | None = None
    having: FieldTypes = []
    require: Names | EventFields | None = None
    forbid: Names | None = None
    one_of: OneOfTable | None = None
    utc_time: _Short | None = None
    deltas: Literal["requested"] | None = None
    no_parameter: Names | None = None
    schema: _Short | dict[str, Any] | None = None
    keys: Literal["types"] | None = None
    echo: EchoTable | None = None
    request_body: _Short | dict[str, Any] | None = None
    first: Names | None = None
    next: NextTable | None = None
    last: Names | LastTable | None = None
    ends: EndsTable | None = None
    counter: _Short | CounterTable | None = None
    unique: _Short | UniqueTable | None = None
    lifecycle: _Short | LifecycleTable | None = None
    same: _Short | SameTable | None = None
    joined: JoinedTable | None = None
    resume: bool | ResumeTable | None = None
    reconnect: Names | None = None
    silence: _Seconds | SilenceTable | None = None
    error: ErrorAspect | ErrorTable | None = None
    header: _Short | HeaderTable | None = None
    framing: Requirement | None = None
    expected: Names | None = None
    """What the messages of the rule expect; None for the words of the primitive."""
    got: Names | None = None


class RuleTable(_AnyRule, forbid_unknown_fields=True, kw_only=True):
    """One rule: its texts, one primitive, and its examples."""

    breaks: Example
    once_per: Literal["stream", "channel"] | None = None
    unless: list[_Code] = []
    python: _Short | None = None


class TrustedRuleTable(_AnyRule, forbid_unknown_fields=True, kw_only=True):
    """One rule of a contract that comes with wiretape, whose functions may be in Python."""

    breaks: Example | None = None
    """None if its examples are in a file of their own."""
    python: Names | None = None
    """`module:function` for each of its functions."""
    scope: Scope | None = None
    once_per: Scope | None = None
    unless: list[_Code] | dict[str, list[_CodeOfProblem]] = []
    noun: _Short | None = None
    not_exercised: _Prose = ""
    notes: _Prose = ""
    fast_path: bool = False
    """Whether it never finds a problem in an ordinary event, and has the same outcome for all of one type."""


AnyRuleTable = RuleTable | TrustedRuleTable


class _AnyContract(Struct, forbid_unknown_fields=True, kw_only=True):
    contract: _Kebab
    title: _Prose = ""
    source: _Prose = ""
    names: Annotated[list[_Short], Meta(max_length=1000)] = []
    extends: _Short | None = None
    without: Annotated[list[_Code], Meta(max_length=MOST_RULES)] = []
    """Codes of inherited rules that it does not have."""
    detect: bool = False
    keep_alive: Annotated[float, Meta(gt=0, le=1_000_000)] | None = None
    other_types: bool = True
    workspace: _Short | None = None
    key_rules: Annotated[list[_Short], Meta(max_length=50)] = []
    client_ids: Annotated[list[_JsonPath], Meta(max_length=50)] = []
    """What clients make up in the bodies of requests, which replays do not compare."""
    limits: Annotated[dict[_Kebab, LimitTable], Meta(max_length=50)] = {}
    scopes: Annotated[dict[_Short, Names], Meta(max_length=50)] = {}
    operations: Annotated[dict[str, OperationTable], Meta(max_length=100)] = {}
    event: EventTable = EventTable()
    types: Annotated[dict[str, TypeTable], Meta(max_length=1000)] = {}
    entity: Annotated[dict[str, EntityTable], Meta(max_length=MOST_ENTITIES)] = {}
    error: ErrorFormatTable = ErrorFormatTable()
    text: Annotated[dict[str, TextTable], Meta(max_length=50)] = {}
    example: ExampleTable = ExampleTable()


class ContractTable(_AnyContract, forbid_unknown_fields=True, kw_only=True):
    """A contract file."""

    rule: Annotated[list[RuleTable], Meta(max_length=MOST_RULES)] = []


class TrustedContractTable(_AnyContract, forbid_unknown_fields=True, kw_only=True):
    """A contract file that comes with wiretape."""

    traffic: _Short | None = None
    """`module:class` of what its rules in Python remember about a recording."""
    events: _Short | None = None
    """`module:class` of its events, if their facts are read in Python."""
    rule: list[TrustedRuleTable] = []
