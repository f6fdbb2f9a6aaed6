"""The file of the contract as data: facts of the specification are stated there, not in Python."""

from pathlib import Path

from wiretape.contract.contract_files import parse_contract

CONTRACT = "agent-sessions.toml"
"""The file of the contract, in this folder."""
_PATH = Path(__file__).with_name(CONTRACT)

DOCUMENT = parse_contract(_PATH.read_text("utf-8"), str(_PATH))
"""Its tables; not to be changed."""
