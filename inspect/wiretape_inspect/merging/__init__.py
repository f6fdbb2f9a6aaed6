"""Several recordings as one."""

from wiretape_inspect.merging.conflicts import conflicts
from wiretape_inspect.merging.joining import Joined, joined

__all__ = ["Joined", "conflicts", "joined"]
