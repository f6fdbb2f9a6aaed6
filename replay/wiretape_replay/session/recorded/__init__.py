"""From a session's recorded connections to its log."""
