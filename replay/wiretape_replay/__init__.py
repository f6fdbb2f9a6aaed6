"""The offline service: plays recordings back."""

from wiretape_replay.player import Missed, Served
from wiretape_replay.server import ServedTape, serve_tape

__all__ = ["Missed", "Served", "ServedTape", "serve_tape"]
