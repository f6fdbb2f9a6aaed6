"""The offline service: plays recordings back."""

from wiretape_replay.serving import Options, Replay, serve_replay
from wiretape_replay.tape.matching import Matching
from wiretape_replay.tape.player import Missed, Served

__all__ = ["Matching", "Missed", "Options", "Replay", "Served", "serve_replay"]
