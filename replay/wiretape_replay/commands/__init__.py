"""The commands `wiretape replay`, `serve` and `control`."""
