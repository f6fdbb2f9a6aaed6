"""Contract files: mistakes are one sentence with file, line and key, and a hostile file does no harm."""

import json
import os
import pickle
import re
import time

import pytest
from for_each import for_each
from stream_text import events

import wiretape.contract
from wiretape.contract.contract_builder import build_contract, load_contract
from wiretape.contract.contract_files import ContractFiles
from wiretape.contract.contract_tables import CodeTable, ErrorFormatTable
from wiretape.contract.json_schema import JsonSchema
from wiretape.contract.service_terms import ErrorWriter
from wiretape.errors import InputError
from wiretape.patterns import Globs, Pointer, RequestPattern
from wiretape.toml_files import find_lines

LIFE = 'opens = "a", closes = "b"'
MISTAKES = {
    # what is appended to the rule: what the error says, after the line
    'first = "a"\nlast = "b"': "rule[0]: expected exactly one of match, require, ",
    "": "expected exactly one of match",
    'first = "a"\nfoo = 1': "rule[0].foo: unknown key",
    'match = ["event"]': "rule[0].match: expected a list of exactly 2 items",
    'match = ["evnt", "/a"]': "rule[0].match: expected event, id, type, kind, cursor, sequence, text, or a JSON",
    f'require = "/{"a/" * 30}"': "rule[0].require: expected a JSON pointer of at most 20 steps",
    'require = ""': "rule[0].require: expected ",
    'lifecycle = "rum"': "rule[0].lifecycle: unknown entity 'rum'; did you mean run?",
    'lifecycle = { entity = "run", aspects = ["open"] }': "rule[0].lifecycle.aspects[0]: expected one of opens-first, ",
    'unique = { fact = "/a", over = "run" }': "rule[0].unique.over: expected one of channel, stream, got 'run'",
    'schema = "types"': "rule[0].schema: no type has a schema",
    'schema = { type = "strin" }': "rule[0].schema: invalid JSON schema",
    'schema = { pattern = "(" }': "rule[0].schema: invalid JSON schema",
    'schema = { "$ref" = "file:///etc/passwd" }': "rule[0].schema: expected $ref to name a definition",
    'schema = { "$ref" = "#/$defs/a", "$defs" = { a = { "$ref" = "#/$defs/a" } } }': "refers to itself",
    'schema = "../x.json"': "rule[0].schema: expected a file in the folder of the contract, got '../x.json'",
    'schema = "/etc/hosts.json"': "expected a file in the folder of the contract",
    'schema = "none.json"': "rule[0].schema: There is no file ",
    'schema = "pipe.json"': "pipe.json is not a regular file, so no contract can be read from it.",
    'first = "a"\nunless = ["TST001"]': "rule[0].unless: expected codes of other rules, got TST001",
    f'first = "a"\n[entity]\nx = {{ {LIFE}, within = "y" }}\ny = {{ {LIFE}, within = "x" }}': (
        "entity.y.within: y is inside itself, through x"
    ),
    'require = "/a~2"': "rule[0].require: expected 0 or 1 after each ~ in a JSON pointer, got '/a~2'",
    'first = "a"\n[operations.a]\nrequest = "GET /{a}/{a}"': "expected each name in braces once, got 'GET /{a}/{a}'",
    'schema = "outside.json"': "is a link to a file outside the folder of the contract",
    'schema = "broken.json"': "rule[0].schema: broken.json is not valid JSON",
    'header = "a b"': "rule[0].header: expected the name of a header, got 'a b'",
    'header = { name = "A", agrees = "/a", value = "b" }': "rule[0].header: agrees and value exclude each other",
    "resume = false": "rule[0]: expected exactly one of ",
    'resume = { unknown = 410, final = "a" }\n[operations.a]\nrequest = "GET /a"\nopen_ended = true': (
        "rule[0].resume: final is for channels that end, but an operation has open_ended = true"
    ),
    "silence = 0": "rule[0].silence: expected a number greater than 0, got 0",
    'first = "a"\nunless = ["TST009"]': "rule[0].unless: unknown code TST009",
    'first = "a"\nalso = ["SSE01"]': "rule[0].also[0]: expected a string that matches",
    'first = "*a*b*c*d*e*f*"': "rule[0].first: expected at most 5 asterisks",
    f'first = "{"a" * 301}"': "rule[0].first: expected a string of at most 300 characters",
    'python = "os:system"': "rule[0].python: the Python code that a contract file names",
    'first = "a"\nkeeps = [{ status = 299 }]': "rule[0].keeps: expected a registered status, got 299",
    'first = "a"\nkeeps = [{ headers = ["a b: c"] }]': "rule[0].keeps: expected a header such as Last-Event-ID: 7",
    'first = "a"\nkeeps = [{ request = "GET x" }]': "rule[0].keeps: expected a request such as GET /tickets/1",
    'first = "a"\nkeeps = [{ part = [{ lost = -1 }] }]': "rule[0].keeps[0].part[0].lost: expected a whole number of at",
    'schema = { properties = { a = { minimum = "x" } } }': "invalid JSON schema at /properties/a/minimum: ",
    'schema = { properties = { a = { "$id" = "x" } } }': "is not supported in schemas of contracts at /properties/a",
    'schema = { not = { "$ref" = "#/$defs/b" } }': "got '#/$defs/b' at /not/$ref.",
    'schema = "wrong.json"': "rule[0].schema: wrong.json: invalid JSON schema at /items/type: ",
    'schema = "latin.json"': "latin.json is not valid JSON: it is not UTF-8.",
    'framing = "utf-8"\nhaving = "id"': "rule[0].having: framing is not about events, so it cannot have having",
    'require = { "/a" = "text" }': "rule[0].require",
    'silence = 1\non = "a"': "rule[0].on: silence is not about events, so it cannot have on",
    'header = "A"\nkinds = ["delta"]': "rule[0].kinds: header is not about events, so it cannot have kinds",
    'error = { codes = ["a"] }': "rule[0].error: expected at least one of aspects, require, ",
    'error = { require = "/a", codes = ["a"] }': "rule[0].error: code of errors is not defined: add it to the table",
    'error = { one_of = { fact = "/a", values = [[1, 2]] } }': "expected as many values in each item",
    'error = "status"\n[error]\ncode = "/code"': "rule[0].error: codes of errors is not defined: add it to the table",
    'header = { name = "A", refused = true }': "rule[0].header: refused is for headers of requests",
    'first = "a"\nexpected = "{b}"': "rule[0].expected: unknown placeholder 'b'; choose one of ",
    'silence = 1\ngot = "{type}"': "rule[0].got: unknown placeholder 'type'; this primitive has seconds",
    'first = "a"\ngot = "{type!r}"': "rule[0].got: unknown placeholder 'type!r'; did you mean type?",
    'first = "a"\ngot = "{type:x}"': "rule[0].got: expected {NAME}, {NAME:quoted} or {NAME:described}, got '{type:x}'",
    'header = { name = "A", of = "request", statuses = [200] }': "header: statuses, codes and agrees are for headers",
    'first = "a"\nkeeps = [{ body = "x", part = [{ text = "y" }] }]': "keeps[0]: body and part exclude each other",
    "resume = { unknown = 410 }": "rule[0].resume: unknown and final need each other: without the last event",
    'resume = { unknown = 41, final = "z" }': "rule[0].resume.unknown: expected a whole number of at least 100",
    'first = "a"\n[types.a]\nschema = { minimum = "x" }': "types.a.schema: invalid JSON schema",
    'first = "a"\n[entity.call2]\nopens = "a"\ncloses = "b"\nwithin = "call2"': "call2.within: unknown entity 'call2'",
    'first = "a"\n[limits]\nx = { requests = 1, seconds = 1, counts = "folow" }': (
        "limits.x.counts: unknown operation 'folow'; did you mean follow?"
    ),
    'first = "a"\n[limits]\n"a b" = { requests = 1, seconds = 1 }': "limits.a b: expected a string that matches ",
    'first = "a"\n[types."text.*"]\ndurable = false': "types.text.*: expected the name of one type, without *",
    'first = "a"\n[scopes]\nx = "GET x"': "scopes.x: expected a method and a path",
    'first = "a"\n[operations.a]\nrequest = "GET"': "operations.a.request: expected a method and a path",
    'first = "a"\n[operations.a]\nrequest = "GET /a/*/b"': "expected * only as the first or the last part of the path",
    'first = "a"\n[operations.a]\nrequest = "GET /"\ncursor = "id"': "a.cursor: expected header:NAME or query",
    'first = "a"\n[operations.a]\nrequest = "GET /"\nchannel = "{x}"': "a.channel: expected a name in braces",
}


@pytest.mark.parametrize("primitive", MISTAKES)
def test_a_mistake_is_one_sentence_with_its_place(primitive, contract, tmp_path):
    (tmp_path / "broken.json").write_text("{", "utf-8")
    (tmp_path / "wrong.json").write_text('{"items": {"type": "strin"}}', "utf-8")
    (tmp_path / "latin.json").write_bytes(b'{"title": "\xe9"}')
    (tmp_path / "outside.json").symlink_to("/etc/hostname")
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises(InputError) as raised:
        contract(primitive)
    message = str(raised.value)
    assert MISTAKES[primitive] in message
    assert message.count("\n") == 0
    if "file" not in MISTAKES[primitive] and "[0]." in MISTAKES[primitive]:
        assert message.startswith(f"{tmp_path / 'test.toml'}, line ")


@pytest.mark.parametrize(
    ("primitive", "said"),
    [
        ('counter = "sequence"', "rule[0].counter: sequence is not defined: add a pointer as sequence to the table"),
        ('require = "text"', "rule[0].require: deltas have no text: add types and text as delta to the table [event]"),
        ('joined = { entity = "run", final = "a", text = "/a" }', "rule[0].joined: deltas have no text"),
    ],
)
def test_a_fact_has_to_be_defined(primitive, said, contract, tmp_path):
    contract(primitive)
    path = tmp_path / "test.toml"
    path.write_text(re.sub("(?m)^(sequence|delta) = .*", "", path.read_text("utf-8")), "utf-8")
    with pytest.raises(InputError) as raised:
        load_contract(str(path))
    assert said in str(raised.value)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("TST001", "SSE001", "line 25: rule[0].code: the code SSE001 is that of a rule about any event stream."),
        ('"broken"', '"invalid-utf8"', "line 26: rule[0].name: the name invalid-utf8 is that of the rule SSE001."),
        ("TST001", "tst1", "line 25: rule[0].code: expected a string that matches"),
        ('breaks = ""', "", "line 24: rule[0]: breaks is missing."),
        ("delta = {", 'durable = ["always", "a"]\ndelta = {', "event: always stands alone, without types, as what"),
        ("delta = {", "delta = { }\n#", "event.delta: types is missing"),
        ('text = "/text"', "text = { }", "event.delta.text: expected a non-empty table."),
        ('text = "/text"', 'text = { "*" = "text" }', "event: expected a JSON pointer such as /response/id"),
        ('contract = "test"', 'contract = "Test!"', "line 2: contract: expected a string that matches"),
        ('contract = "test"', 'contract = "test"\nextends = "sss"', "line 3: extends: expected sse, or the name of a"),
        ("[[rule]]", "[rule]", "rule: expected a list of tables: write [[rule]] instead of [rule]."),
        ("[operations.send]", "[operation.send]", "unknown key; did you mean operations?"),
    ],
)
def test_a_mistake_elsewhere_is_named_by_its_line(old, new, said, contract, tmp_path):
    contract('first = "a"')
    path = tmp_path / "test.toml"
    path.write_text(path.read_text("utf-8").replace(old, new, 1), "utf-8")
    with pytest.raises(InputError, match="^" + str(path)) as raised:
        load_contract(str(path))
    assert said in str(raised.value)


def test_a_contract_extends_files_in_its_folder_only(tmp_path):
    (tmp_path / "a").mkdir()
    base = 'contract = "base"\n[operations.all]\nrequest = "GET /*"\n[event]\ntype = "/type"\ncursor = "/c"\n'
    (tmp_path / "a" / "base.toml").write_text(base, "utf-8")
    top = tmp_path / "top.toml"
    top.write_text('contract = "top"\nextends = "a/base.toml"\n[event]\ncursor = "/d"\n', "utf-8")
    loaded = load_contract(str(top))
    assert (str(loaded.format.type), str(loaded.format.cursor)) == ("/type", "/d")
    assert pickle.loads(pickle.dumps(loaded)).format.cursor.text == "/d"  # noqa: S301 - our own

    for extends, said in {
        "../base.toml": "expected a file in the folder",
        "a/../../x.toml": "expected a file in the folder",
        "top.toml": "line 2: extends: top.toml extends itself, through this file.",
        "a/none.toml": "There is no file ",
    }.items():
        top.write_text(f'contract = "top"\nextends = "{extends}"\n', "utf-8")
        with pytest.raises(InputError) as raised:
            load_contract(str(top))
        assert said in str(raised.value)

    rules = "".join(
        f'[[rule]]\ncode = "{code}"\nname = "n{code[-1]}"\nclause = "c"\nlast = "z"\nbreaks = ""\n'
        for code in ("ABC001", "ABC002")
    )
    (tmp_path / "a" / "base.toml").write_text(base + rules, "utf-8")
    top.write_text('contract = "top"\nextends = "a/base.toml"\nwithout = ["ABC001"]\n', "utf-8")
    (tmp_path / "over.toml").write_text('contract = "over"\nextends = "top.toml"\n', "utf-8")
    for file in (top, tmp_path / "over.toml"):
        assert {"ABC001", "ABC002"} & load_contract(str(file)).catalogue.keys() == {"ABC002"}
    for code in ("ABC003", "SSE001"):
        top.write_text(f'contract = "top"\nextends = "a/base.toml"\nwithout = ["{code}"]\n', "utf-8")
        with pytest.raises(InputError, match=f"{code} is not an inherited rule"):
            load_contract(str(top))

    for number in range(9):
        (tmp_path / f"{number}.toml").write_text(f'contract = "n"\nextends = "{number + 1}.toml"\n', "utf-8")
    with pytest.raises(InputError, match="at most 5 contracts"):
        load_contract(str(tmp_path / "0.toml"))


def test_other_files_are_no_contracts(tmp_path):
    os.mkfifo(tmp_path / "fifo.toml")
    for name in ("fifo.toml", "none.toml", ".", "ssee", "x" * 5000):
        with pytest.raises(InputError):
            load_contract(name if name == "ssee" else str(tmp_path / name))


RULE = '[[rule]]\ncode = "TST{0:03}"\nname = "n{0}"\nclause = "c"\nfirst = "a"\nbreaks = ""\n'
HOSTILE = {
    "100,000 rules": "".join(f'[[rule]]\ncode="A"\n# {number}\n' for number in range(100_000)),
    "301 rules": "".join(RULE.format(number) for number in range(301)),
    "many operations": "".join(f'[operations.o{number}]\nrequest = "GET /"\n' for number in range(2000)),
    "a deep schema": f"[types.a]\nschema = {'{ items = ' * 300}{{}}{' }' * 300}\n",
    "a wide schema": "[types.a]\nschema = { allOf = ["
    + "{ '$ref' = '#/$defs/0' }, " * 9
    + "], '$defs' = { "
    + ", ".join(
        f"{n} = {{ allOf = [{', '.join([repr({}).replace(':', '=')] * 2)}, "
        f"{{ '$ref' = '#/$defs/{n + 1}' }}, {{ '$ref' = '#/$defs/{n + 1}' }}] }}"
        for n in range(40)
    )
    + ", 40 = {} } }\n",
    "long examples": RULE.format(1).replace('breaks = ""', f'breaks = "{"x" * 60_000}"'),
    "a long integer": f"x = {'9' * 5000}\n",
    "a long header": f"[entity.{'.'.join(['a'] * 5000)}]\n",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_hostile_file_is_refused_quickly(kind, tmp_path):
    path = tmp_path / "hostile.toml"
    path.write_text(f'contract = "h"\nextends = "sse"\n{HOSTILE[kind]}', "utf-8")
    began = time.perf_counter()
    with pytest.raises(InputError) as raised:
        load_contract(str(path))
    assert time.perf_counter() - began < 5
    assert len(str(raised.value)) < 600


@for_each(
    ("pattern", "text", "matches"),
    [
        *[
            ("a.*.b", "a.x.b", True),
            ("a.*.b", "a.b", False),
            ("*", "", True),
            ("a*a", "a", False),
            ("[DONE]", "D", False),
        ],
        *[("*ab*ab*", "abab", True), ("*ab*ab*", "ab", False), ("?", "x", False), ("*" + "a*" * 4, "a" * 99, True)],
    ],
)
def test_globs_have_only_the_asterisk(pattern, text, matches):
    assert Globs([pattern]).matches(text) is matches


@for_each(
    ("pattern", "request_", "found"),
    [
        ("GET /a/{b}", "GET /a/7?x=1", {"b": "7"}),
        ("GET /a/{b}", "GET /a/", None),
        ("GET /a/{b}", "POST /a/7", None),
        ("GET /a/{b}", "GET /a/7/c", None),
        ("* /a/*", "PUT /a/7/c", {}),
        ("* /a/*", "PUT /a", None),
        ("* /*", "GET /", {}),
        ("GET /*/a/{b}", "GET /a/7", {"b": "7"}),
        ("GET /*/a/{b}", "GET /base/path/a/7", {"b": "7"}),
        ("GET /*/a/{b}", "GET /a/7/c", None),
        ("GET /a/{b}", "GET http://host/a/7%2F8", {"b": "7/8"}),
        ("GET /a/{b}", "GET /%61/é", {"b": "\ufffd"}),
    ],
)
def test_a_request_pattern_matches_whole_segments(pattern, request_, found):
    assert RequestPattern(pattern).match(*request_.split()) == found


def test_the_public_names_are_those_of_their_modules():
    names = ["Contract", "Entity", "EventType", "Operation", "Rule"]
    assert [getattr(wiretape.contract, name).__name__ for name in names] == names
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        wiretape.contract.Nothing  # noqa: B018 - it raises


def test_pointers_read_objects_and_lists():
    value = {"a/b": [{"~": 1}], "": 2}
    assert Pointer("/a~1b/0/~0").read(value) == 1
    assert Pointer("/").read(value) == 2
    assert Pointer("/a~1b/00000001").read(value) is Pointer("/a~1b/-").read(value) is ...


def test_a_schema_takes_linear_time_and_bounded_messages():
    schema = JsonSchema({"pattern": "^(a+)+$"})
    began = time.perf_counter()
    (message,) = schema.find_violations("a" * 100_000 + "!")
    assert time.perf_counter() - began < 2
    assert len(message) < 300


def test_lines_are_found_in_tables_and_lists():
    text = 'a = 1\n[b."c.d"]\ne = """\n[[f]]\nx = 1\n"""\n[[f]]\ng = 1\n[f.h]\ni = 1\n[[f]]\ng = 2\n'
    line_of = find_lines(text)
    paths = [("a",), ("b", "c.d", "e"), ("f", 0, "g"), ("f", 0, "h", "i"), ("f", 1, "g"), ("f", 1, "zzz", 3), ("zzz",)]
    assert [line_of(path) for path in paths] == [1, 3, 8, 10, 12, 11, None]


def test_schemas_are_limited_together_without_definitions_that_they_do_not_use(contract, monkeypatch):
    unused = {"b": {"type": "object"}}
    assert "b" not in JsonSchema({"$ref": "#/$defs/a", "$defs": {"a": True} | unused})._document["$defs"]
    monkeypatch.setattr("wiretape.contract.contract_builder.MOST_PARTS_IN_ALL", 5)
    contract("schema = { maximum = 1 }")
    with pytest.raises(InputError, match=r"rule\[0\]\.schema: the schemas of the contract have more than 5 parts"):
        contract("schema = { maximum = 1 }\n[types.b]\nschema = { minimum = 1 }\n[types.a]\nschema = { minimum = 1 }")


@pytest.mark.parametrize("primitive", ["resume = true", 'reconnect = "a"'])
def test_rules_about_cursors_need_one(primitive, contract, head):
    with pytest.raises(InputError, match="no operation has a cursor"):
        contract(primitive, head=head.replace('cursor = "header:Last-Event-ID"', ""))


def test_a_schema_in_a_file_next_to_the_contract_is_used(contract, check, tmp_path):
    (tmp_path / "event.json").write_text(json.dumps({"required": ["a"]}), "utf-8")
    found = check(contract('schema = "event.json"'), ("GET /x/7", [events('{"b": 1}')], "complete"))
    assert found.verdict == "fail"


@pytest.mark.parametrize("name", ["common", "sse"])
def test_no_text_replaces_a_contract_that_comes_with_wiretape(name):
    """Its rules may be in Python, and the texts of a contract can come with a recording."""
    rule = '[[rule]]\ncode = "BAD001"\nname = "bad"\nclause = "c"\npython = "os:abort"\n'
    head = 'contract = "own"\n{}[operations.all]\nrequest = "GET /*"\n'
    texts = {name: head.format("") + rule, "own.toml": head.format('extends = "sse"\n')}
    for file in {"own.toml", name} - {"common"}:
        assert "BAD001" not in build_contract(ContractFiles(None, texts), file).catalogue


def test_fields_of_errors_that_repeat_each_other_stay_short():
    fields = {"f0": "x" * 50} | {f"f{number}": f"{{f{number - 1}}}" * 2 for number in range(1, 60)}
    errors = ErrorWriter(ErrorFormatTable(code="/code", codes={"closed": CodeTable(409, fields=fields)}))
    document = errors.write("closed", None, "q").document
    assert max(len(str(value)) for value in document.values()) <= 400


LIMIT = '{ status = 400, when = "limit" }'


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('[error]\ncode = "/e/code"\nmessage = "/e/code/text"', "error: expected pointers to different values"),
        (
            f'[error]\ncode = "/code"\ncodes.a = {LIMIT}\ncodes.b = {LIMIT}',
            "error: a and b are both for the case limit",
        ),
        (
            '[error]\ncode = "/code"\ncodes.a = { status = 400, headers = { "a b" = "1" } }',
            "expected the name of a header",
        ),
        ('[operations.o]\nrequest = "GET /o"\ndeltas = "deltas=yes"', "expected query:NAME=VALUE"),
        ("[limits]\nruns = { requests = 0, seconds = 1 }", "requests: expected a whole number of at least 1"),
    ],
)
def test_what_a_contract_says_about_its_service_is_checked(tmp_path, text, problem):
    path = tmp_path / "x.toml"
    path.write_text(f'contract = "x"\nextends = "sse"\n{text}\n', "utf-8")
    with pytest.raises(InputError, match=re.escape(problem)):
        load_contract(str(path))
