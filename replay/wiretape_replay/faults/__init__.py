"""Fault injection by script.  All of it is pure, except `fault_actions` and `dry_run`."""
