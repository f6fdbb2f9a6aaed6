"""The parts of `wiretape recover`: rows of damaged files, and a recording made of them."""
