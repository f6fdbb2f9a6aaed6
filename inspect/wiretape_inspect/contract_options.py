"""The contracts that a command line names: the option `--allow-code`, and a limit for their examples."""

from collections.abc import Callable, Iterable
from typing import TypeVar

import click

from wiretape.contract import CodeUse, Contract, load_contract
from wiretape.errors import InputError
from wiretape.time_limit import call_within

_T = TypeVar("_T")
_LONGEST_S = 60.0

allow_code_option = click.option(
    "--allow-code", is_flag=True, help="Run the Python code that the rules of a contract file name."
)


def load_contracts(names: Iterable[str], *, allow_code: bool) -> tuple[Contract, ...]:
    """Return contracts by their names and files; code that a file names is an error, unless allowed.

    Raises InputError.
    """
    return tuple(load_contract(name, code=CodeUse.RUN if allow_code else CodeUse.REFUSE) for name in names)


def run_examples(contract: str | None, run: Callable[[], _T]) -> _T:
    """Return the result of a function that runs examples of a contract, which a stranger may have written.

    Raises InputError if it takes very long.
    """
    if contract is None:
        return run()
    try:
        return call_within(_LONGEST_S, run)
    except TimeoutError:
        limit = f"The examples of {contract} take more than {_LONGEST_S:g} seconds"
        raise InputError(f"{limit}: make them, or their schemas, smaller.") from None
