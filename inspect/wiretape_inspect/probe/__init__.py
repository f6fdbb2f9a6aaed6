"""The conformance suite: drive a running service through every situation in the specification, and record it."""
