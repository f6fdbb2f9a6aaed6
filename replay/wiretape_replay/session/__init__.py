"""Session mode: the log of a session, the playhead that moves over it, and the streams that follow the playhead."""
