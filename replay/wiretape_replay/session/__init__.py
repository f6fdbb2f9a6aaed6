"""Session mode: the log of a session (built from a recording), the playhead that moves over it, and its streams."""
