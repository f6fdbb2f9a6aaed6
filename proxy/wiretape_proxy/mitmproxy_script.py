"""The script for `mitmdump -s` and `mitmweb -s`; `wiretape proxy --addon-path` prints its path."""

import sys
from pathlib import Path

# mitmproxy leaves the folder of a script at the front of the search path, where our modules would shadow others.
_here = str(Path(__file__).parent)
sys.path[:] = [entry for entry in sys.path if entry != _here]

from wiretape_proxy.addon import Wiretape  # noqa: E402 - the search path comes first

addons = [Wiretape()]
