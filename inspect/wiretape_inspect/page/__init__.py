"""The debugger's page: one HTML text with its style and its scripts, served or written to a file."""

from wiretape_inspect.page.bundle import SCRIPTS, Page, assembled

__all__ = ["SCRIPTS", "Page", "assembled"]
