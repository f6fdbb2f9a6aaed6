"""Control of the playheads of a running replay or service: from Python, over HTTP, and from a shell."""
