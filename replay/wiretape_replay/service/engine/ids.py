"""Ids that are the same in every run with the same seed, and nobody else's."""

from hashlib import blake2b


def made_id(kind: str, seed: int, *of: str | int) -> str:
    """`kind_` and 20 hexadecimal digits, which the seed and what it is the id of decide."""
    text = "\0".join(map(str, (kind, seed, *of)))
    return f"{kind}_{blake2b(text.encode(), digest_size=10).hexdigest()}"
