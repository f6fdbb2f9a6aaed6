"""Replays for tests: the pytest plugin, and the same for other runners (`wiretape.testing`)."""
