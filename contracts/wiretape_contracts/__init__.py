"""Contracts that come with wiretape, each in a package of its own.  wiretape finds them by their entry points."""
