"""Cut a recording down to a part of it, or to what one finding needs, and redact it."""
