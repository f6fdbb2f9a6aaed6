"""A recording replayed against itself: every recorded request is sent, and every byte that comes is compared."""

from wiretape_replay.verify.verifier import VerifyResult, verify

__all__ = ["VerifyResult", "verify"]
