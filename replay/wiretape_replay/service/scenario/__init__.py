"""Scenarios: what the runs of a service do, step by step."""
