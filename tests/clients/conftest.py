"""Loads the clients by path, because the tests are not a package."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def clients():
    spec = spec_from_file_location("wiretape_test_clients", Path(__file__).with_name("clients.py"))
    module = module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
