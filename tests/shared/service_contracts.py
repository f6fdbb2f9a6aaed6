"""The contract of the Agent Session Service, as replays use it."""

from wiretape.contract import load_contract
from wiretape_replay.replayed_contracts import ReplayedContracts

SERVICE = ReplayedContracts([load_contract("agent-sessions")], is_chosen=False)
