"""Fault injection by script.  All of it is pure, except `fault_preview`."""
