"""`python -m wiretape` is the `wiretape` command."""

from wiretape.cli import main

main()
