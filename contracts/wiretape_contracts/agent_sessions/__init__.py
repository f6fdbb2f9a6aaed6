"""The Agent Session Service: its stand-in for `wiretape serve`, and its cases for `wiretape probe`."""
