"""Errors for people: one sentence that says what is wrong and what to do."""

import click

from wiretape.safe_text import printable


class InputError(click.ClickException):
    """What the user gave cannot be used: a file, an address, an option.  Exit status 2."""

    exit_code = 2

    def format_message(self) -> str:
        """The sentence, safe to print and in one line, whatever a file is called or holds."""
        return printable(self.message)


class RecordingError(InputError):
    """A file is not a recording that this version can read or write."""
