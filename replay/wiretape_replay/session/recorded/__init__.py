"""Builds the log of a session from its recorded connections."""
