"""What both ends of the control interface have to know."""

ROOT = "/_wiretape/"
"""The beginning of every path of it."""
TOKEN_HEADER = "X-Wiretape-Token"  # noqa: S105 - a name
LONGEST_WAIT_S = 600.0
MOST_STEPS = 100_000
PATIENCE_S = 30.0
"""How long something is waited for where nothing else is said."""
