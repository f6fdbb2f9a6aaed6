"""A recording replayed against itself: every recorded request is sent, and every byte that comes is compared."""

from wiretape_replay.verify.run import Verified, verify

__all__ = ["Verified", "verify"]
