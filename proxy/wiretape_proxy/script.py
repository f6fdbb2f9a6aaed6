"""For `mitmdump -s` and `mitmweb -s`: `wiretape proxy --addon-path` prints where this file is."""

import sys
from pathlib import Path

# mitmproxy puts a script's folder in front of the search path and leaves it there: our modules would hide others.
_here = str(Path(__file__).parent)
sys.path[:] = [entry for entry in sys.path if entry != _here]

from wiretape_proxy.addon import Wiretape  # noqa: E402 - the search path comes first

addons = [Wiretape()]
