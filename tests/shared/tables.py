"""Data of tests: texts, and tables of cases in TOML, in the folder `data` beside the test module."""

import tomllib
from pathlib import Path
from typing import Any


def read_data(module: str, name: str) -> str:
    """Return the text of a file."""
    return (Path(module).parent / "data" / name).read_text("utf-8")


def read_tables(module: str) -> dict[str, Any]:
    """Return the tables of a module: for test_config.py, those of config.toml."""
    return tomllib.loads(read_data(module, f"{Path(module).stem.removeprefix('test_')}.toml"))
