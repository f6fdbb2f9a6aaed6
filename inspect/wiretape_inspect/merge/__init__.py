"""Merge recordings of several proxies into one, in wall-clock order."""
