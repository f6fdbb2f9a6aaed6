"""Remembered secrets are found wherever they are, however many there are."""

import pytest
from for_each import for_each
from hypothesis import example, given
from hypothesis import strategies as st

from wiretape.recording import secret_finder
from wiretape.recording.secret_finder import KEPT, LONGEST, SHORTEST, SecretFinder

TEXT = st.text("ab", max_size=60).map(str.encode)
SECRETS = st.lists(st.text("ab", min_size=SHORTEST, max_size=20).map(str.encode), max_size=40)


FEW = pytest.mark.parametrize("few", [secret_finder._FEW, 2], ids=["usual", "small"])
"""With the small one, most secrets are in the large automaton."""


def remember(secrets: list[bytes], kept: int = KEPT) -> SecretFinder:
    finder = SecretFinder(kept=kept)
    finder.add(reversed(secrets))
    return finder


@FEW
@given(secrets=SECRETS, data=TEXT)
@example(secrets=[b"a" * 8], data=b"a" * 9)
@example(secrets=[b"a" * 8], data=b"a" * 9 + b"b" + b"a" * 9)
@example(secrets=[b"a" * at + b"b" + b"a" * (7 - at) for at in range(6)], data=b"aaabaaaab" + b"baaaaaaa")
@example(secrets=[b"aaaaaaab", b"aaabbbbb", b"bbbbbaaa", b"baaabbbbb"], data=b"ab" + b"aaaaaaabbbbbaaabbbbb" + b"aab")
def test_every_occurrence_is_found_even_those_that_overlap(few: int, secrets: list[bytes], data: bytes) -> None:
    """Secrets of two letters overlap each other in every way, and fill more than one automaton."""
    covered = set()
    for secret in secrets:
        for start in range(len(data)):
            if data.startswith(secret, start):
                covered.update(range(start, start + len(secret)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(secret_finder, "_FEW", few)
        finder = remember(secrets[: len(secrets) // 2])
        finder.find(b"ab" * 30)  # builds an automaton
        finder.add(secrets[len(secrets) // 2 :])
        spans = finder.find(data)
    assert {at for start, end in spans for at in range(start, end)} == covered
    assert spans == sorted(spans)


@FEW
def test_long_secrets_that_overlap_by_one_byte_or_all_but_one_are_found(few, monkeypatch) -> None:
    """A secret that has the greatest length reaches as far before another one as any can."""
    monkeypatch.setattr(secret_finder, "_FEW", few)
    text = b"".join(b"%03d." % number for number in range(100))
    for offset in (1, 2, LONGEST - 1):
        parts = [text[:LONGEST], text[offset:][:LONGEST], text[offset - 1 :][:SHORTEST]]
        assert remember(parts).find(b"<" + text + b">") == [(1, 1 + max(offset + LONGEST, offset + SHORTEST - 1))]


@for_each("count", [1, 10, 60, 121])
def test_secrets_that_match_at_every_byte_take_few_steps(count: int) -> None:
    """Secrets of dashes contain each other."""
    lookups: list[bytes] = []

    class Pieces(dict[bytes, None]):
        def __contains__(self, piece: object) -> bool:
            lookups.append(b"")
            return super().__contains__(piece)

    data = b"-" * 20_000
    finder = remember([b"-" * size for size in range(SHORTEST, SHORTEST + count)])
    finder._pieces = Pieces(finder._pieces)
    assert finder.find(data) == [(0, len(data))]
    assert len(lookups) < len(data) + 200


@given(secrets=SECRETS, data=TEXT)
def test_the_longest_beginning_at_the_end_is_found(secrets: list[bytes], data: bytes) -> None:
    """The whole of a secret is not a beginning of it."""
    lengths = [
        size for size in range(1, len(data) + 1) for each in secrets if each[:-1].startswith(data[len(data) - size :])
    ]
    assert remember(secrets).partial(data) == max(lengths, default=0)


def test_long_secrets_are_found_and_held_back_in_pieces() -> None:
    """The last piece is as long as the others."""
    secret = b"".join(b"%03d." % number for number in range(100))
    remembered = remember([secret])
    assert remembered.find(b"<" + secret + b">") == [(1, 1 + len(secret))]
    assert remembered.partial(secret[: LONGEST + 30]) == 30
    assert remembered.partial(secret[: LONGEST - 1]) == LONGEST - 1
    cut = secret[: 2 * LONGEST + SHORTEST]
    assert not remember([cut]).find(cut[-SHORTEST:])


def test_the_secrets_that_were_used_last_are_kept() -> None:
    """There is a limit; using a secret again renews it."""
    used, unused = b"used-all-the-time", b"used-only-once"
    remembered = remember([unused], kept=100)
    for number in range(500):
        remembered.add([used])
        remembered.add([b"secret-%06d-" % number])
        assert remembered.find(b"--" + used) == [(2, 2 + len(used))]
        found = sum(bool(remembered.find(b"secret-%06d-" % each)) for each in (0, number // 2, number - 101))
        assert number < 300 or found < 3, "no more than the limit are remembered"
    assert not remembered.find(unused)
    assert remembered.partial(b"secret-000401") == len("secret-000401")
    assert all(remembered.find(b"secret-%06d-" % number) for number in range(401, 500))


def test_of_too_many_secrets_in_one_head_only_those_that_are_kept_are_added() -> None:
    """The others would take seconds, and be forgotten at once."""
    secrets = [b"secret-%06d-" % number for number in range(5000)]
    finder = remember([b"used-before", *secrets, *[secrets[-1]] * 1000], kept=100)
    assert [*finder._pieces] == secrets[-100:]
    finder.add([b"-" * LONGEST * 10_000])
    assert [*finder._pieces][-2:] == [secrets[-1], b"-" * LONGEST], "pieces that are equal are added once"
