"""Compare two recordings: pair their exchanges, align the events of their streams, list the differences.

`reconnection` compares two connections of one channel instead.
"""
