"""What the checker remembers between observations: per exchange, stream, session and client.

Rules only read this state; it changes after the rules have run.  The state of an exchange and its stream is released
when the exchange ends.  The state of sessions and clients is bounded: the oldest is dropped first.
"""
