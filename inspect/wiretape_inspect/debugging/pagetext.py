"""The page as it is sent, and its Content-Security-Policy."""

from wiretape_inspect.page import assembled

NOTHING = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""The policy of what is no page."""


def page() -> tuple[str, str]:
    """The text of the page, and the policy that it is sent with."""
    try:
        made = assembled()
    except FileNotFoundError as error:
        return f"<!doctype html><title>wiretape</title><p>There is no {error.filename} yet.", NOTHING
    return made.html, f"{made.policy}; frame-ancestors 'none'"
