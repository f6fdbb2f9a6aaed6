"""The client judged: what passes between clients and the replay, checked and recorded."""
