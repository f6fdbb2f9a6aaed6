"""Metadata that describes a recording to datasette."""
