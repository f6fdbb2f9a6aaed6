"""AG-UI, the Agent-User Interaction Protocol: its contract, the schemas of its events, and its rules in Python."""

CONTRACT = "ag-ui.toml"
"""The file of the contract, in this folder."""
