"""Faults by script."""
