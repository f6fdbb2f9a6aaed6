"""The bytes of an event on a stream."""


def event_frame(name: str, data: bytes, identity: str | None = None) -> bytes:
    """`event:`, `id:` where there is one, and one `data:` line; nothing of it may hold a line end."""
    line = b"" if identity is None else b"id: %b\n" % identity.encode()
    return b"event: %b\n%bdata: %b\n\n" % (name.encode(), line, data)
