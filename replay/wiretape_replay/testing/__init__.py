"""Replays and the stand-in for tests: the pytest plugin, and the same for other test runners (`wiretape.testing`)."""
