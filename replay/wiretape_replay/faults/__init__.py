"""Fault injection by script.  All of it is pure, except `dry_run`."""
