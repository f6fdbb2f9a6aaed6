"""Programs of other projects that tests run; `make test` passes without them."""

import shutil

import pytest


def find_program(*names: str) -> str:
    """Return the path of the first of these programs that is installed; skip the test if none is."""
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        pytest.skip(f"{names[0]} is not installed")
    return found
