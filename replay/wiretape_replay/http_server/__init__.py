"""The HTTP/1.1 server of replays and services.  Everything that depends on aiohttp's internals is in this folder."""
