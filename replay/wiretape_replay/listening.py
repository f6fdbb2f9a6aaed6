"""Where to listen, as people write it."""

import re

from wiretape.errors import InputError


def address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, with brackets around an IPv6 host.  Raises InputError."""
    match = re.fullmatch(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]\s]+)):([0-9]{1,5})", text, re.ASCII)
    if match is None or int(match[3]) > 65535:
        raise InputError(f"{text!r} is no address to listen on: give HOST:PORT, such as 127.0.0.1:8090 or [::1]:0.")
    return match[1] or match[2], int(match[3])
