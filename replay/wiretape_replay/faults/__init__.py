"""Faults by script: what goes wrong, where, and how often.  All but `performing` is pure."""
