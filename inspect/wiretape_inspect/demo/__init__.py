"""The parts of `wiretape demo`: its service (TOML), its client and its child processes."""
