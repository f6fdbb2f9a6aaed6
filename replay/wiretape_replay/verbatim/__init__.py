"""Verbatim mode: the n-th request of a kind gets the n-th recorded response of that kind, byte for byte."""
