"""Patterns of filters, made safe to try on text that somebody else wrote.  Pure."""

import re

LONGEST = 200
"""Characters that a regular expression of a filter may have."""
SEARCHED = 65_536
"""Characters of a text in which regular expressions are looked for."""
_MOST = 3
_TOKEN = re.compile(
    r"""(?P<odd>\\[1-9]|\(\?(?:P=|\(|\#|[aiLmsux-]+\)|[aiLmsux-]*x))
    |\\.|\[\^?\]?(?:\\.|[^\]\\])*\]
    |(?P<open>\((?:\?(?:P<\w+>|<?[=!]|>|[aiLmsu-]*:))?)
    |(?P<close>\))
    |(?P<many>(?:[*+]|\{(?:\d+,?\d*|,\d*)\})[?+]?)
    |(?P<or>\|)
    |(?P<maybe>\?)
    |.""",
    re.DOTALL | re.VERBOSE | re.ASCII,
)


def glob(pattern: str, *, literal: bool = False, ignore_case: bool = False) -> re.Pattern[str]:
    """`*` stands for any text and `?` for any character, everything else for itself; all of it when `literal`."""
    if literal:
        return re.compile(re.escape(pattern), re.IGNORECASE if ignore_case else 0)
    first, *others = (".".join(map(re.escape, part.split("?"))) for part in re.split(r"\*+", pattern))
    said = first
    if others:
        # What follows a star is taken where it first stands, for good: so the time is that of one pass.
        said += "".join(f"(?>.*?{part})" for part in others[:-1]) + f".*{others[-1]}"
    return re.compile(said, re.DOTALL | (re.IGNORECASE if ignore_case else 0))


def regex_fault(pattern: str) -> str | None:
    """What is wrong with a regular expression, to follow its name; None when it may be used.

    Refused is what could take forever on some text: repetition around repetition or around alternatives,
    references back, and more than a few repetitions without an upper bound.
    """
    if not pattern:
        return "is empty"
    if len(pattern) > LONGEST:
        return f"is longer than {LONGEST} characters"
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return f"cannot be read: {error}"
    return _slow(pattern)


def _slow(pattern: str) -> str | None:
    """Why the pattern, which is well-formed, might be slow."""
    loose = [False]  # for each open group, the pattern itself first: whether it repeats or has alternatives
    closed = False  # whether what stands just before is a group that is loose
    repetitions = 0
    for token in _TOKEN.finditer(pattern):
        match token.lastgroup:
            case "odd":
                return "refers back to a group, or has a comment or flags, which is not taken here"
            case "many":
                if closed:
                    return "repeats what repeats or has alternatives itself, which could take forever"
                loose[-1] = True
                repetitions += 1
            case "open":
                loose.append(False)
            case "close":
                closed = loose.pop()
                loose[-1] |= closed
            case "or":
                loose[-1] = True
        closed &= token.lastgroup in {"close", "maybe"}
    return f"has more than {_MOST} repetitions, which could take forever" if repetitions > _MOST else None
