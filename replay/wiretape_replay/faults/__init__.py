"""Fault injection by script.  All of it is pure, except `fault_application` and `dry_run`."""
