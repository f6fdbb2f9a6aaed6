"""The Agent Session Service: its stand-in for `wiretape serve`."""
