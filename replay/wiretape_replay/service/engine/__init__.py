"""What a session does: a state machine without a clock or I/O.

The same scenario, seed and commands at the same times give the same ids, events and bytes.
"""

from wiretape_replay.service.engine.ids import made_id
from wiretape_replay.service.engine.model import Command, Do, Emitted, Refusal, Run, RunStatus, Waiting
from wiretape_replay.service.engine.session import SessionEngine
from wiretape_replay.service.engine.wire import entry_of

__all__ = [
    "Command",
    "Do",
    "Emitted",
    "Refusal",
    "Run",
    "RunStatus",
    "SessionEngine",
    "Waiting",
    "entry_of",
    "made_id",
]
