"""The offline service: plays recordings back."""

from wiretape_replay.serving import ServedTape, serve_tape
from wiretape_replay.tape.player import Missed, Served

__all__ = ["Missed", "Served", "ServedTape", "serve_tape"]
