from wiretape_replay.testing.judged import JudgedReplay as JudgedReplay
from wiretape_replay.testing.listening import Request as Request
from wiretape_replay.testing.runners import ClientError as ClientError
from wiretape_replay.testing.runners import replay as replay

__all__ = ["ClientError", "JudgedReplay", "Request", "replay"]
