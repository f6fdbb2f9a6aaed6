"""Errors for people: one sentence that says what is wrong and what to do."""

import click


class InputError(click.ClickException):
    """What the user gave cannot be used: a file, an address, an option.  Exit status 2."""

    exit_code = 2


class RecordingError(InputError):
    """A file is not a recording that this version can read or write."""
