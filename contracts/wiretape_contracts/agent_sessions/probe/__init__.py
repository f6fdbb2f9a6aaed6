"""The conformance suite: test a running service in every situation that the specification describes."""
