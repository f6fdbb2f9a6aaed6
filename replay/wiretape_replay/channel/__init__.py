"""Channel mode: the log of a channel (built from a recording), the playhead that moves over it, and its streams."""
