"""The parts of `wiretape demo`: its service (TOML) and its child processes."""
