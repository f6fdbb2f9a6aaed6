"""Session mode: a log of events, and a playhead that moves over it."""
