"""The playhead moved from outside."""
