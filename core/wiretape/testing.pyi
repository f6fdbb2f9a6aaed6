from wiretape_replay.testing.checked_servers import CheckedReplay as CheckedReplay
from wiretape_replay.testing.checked_servers import CheckedService as CheckedService
from wiretape_replay.testing.checked_servers import ClientError as ClientError
from wiretape_replay.testing.checked_servers import ReceivedRequest as ReceivedRequest
from wiretape_replay.testing.checked_servers import replay as replay
from wiretape_replay.testing.checked_servers import serve as serve
from wiretape_replay.testing.checked_servers import stream as stream

__all__ = ["CheckedReplay", "CheckedService", "ClientError", "ReceivedRequest", "replay", "serve", "stream"]
