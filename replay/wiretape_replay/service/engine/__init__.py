"""What a session does: a state machine without I/O and without a clock.

The same scenario, seed and commands at the same times give the same ids, events and bytes.
"""
