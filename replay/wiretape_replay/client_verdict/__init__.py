"""Check the client of a replay or of the stand-in, record its traffic, and report the findings."""
