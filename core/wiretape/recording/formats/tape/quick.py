"""Events as nearly all of them stand in a tape that was exported, read without the YAML parser, to the same effect."""

import re

import orjson

from wiretape.recording.formats.tape.framing import AS_DATA, PLAIN, lines_of

_AFTER = r"- after: (\d{1,9})(?:\.(\d{1,9}))?\n  data:"
_ON_ONE_LINE = re.compile(_AFTER + r" (\{.*\})\n?")
_ON_SEVERAL = re.compile(_AFTER + r"\n((?:    [A-Za-z_][A-Za-z0-9_]*: .+\n)+)")
_LINE = re.compile(r"    (\w+): (.+)\n")
_WORD = re.compile(r"[A-Za-z_](?:[A-Za-z0-9_./:-]*[A-Za-z0-9_])?")
_JSON_WORDS = frozenset({"null", "true", "false"})


def plain_event(text: str) -> tuple[int, bytes] | None:
    """The time after what came before (ns) and the bytes of an event; None for what is not surely plain."""
    found = _ON_ONE_LINE.fullmatch(text)
    if found is not None:
        document = found[3].encode()
    else:
        found = _ON_SEVERAL.fullmatch(text)
        if found is None:
            return None
        document = "{{{}}}".format(
            ",".join(f'"{key}":{_json(value)}' for key, value in _LINE.findall(found[3]))
        ).encode()
    try:
        value = orjson.loads(document)
        # What is not written as it would be written anew may mean something else to YAML: a key twice, a comment.
        if orjson.dumps(value) != document:
            return None
    except ValueError:
        return None
    after_ns = int(found[1]) * 10**9 + (int(found[2].ljust(9, "0")) if found[2] else 0)
    return after_ns, PLAIN.block(document, *lines_of(value, AS_DATA, AS_DATA))


def _json(value: str) -> str:
    """A value of YAML as JSON, where it is a word or JSON itself."""
    return f'"{value}"' if value not in _JSON_WORDS and _WORD.fullmatch(value) else value
