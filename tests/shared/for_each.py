"""Run a test over many small cases."""

import functools
import inspect
from collections.abc import Callable, Iterable


def for_each(name: str, cases: Iterable, ids: Callable[..., str] = str) -> Callable[[Callable], Callable]:
    """Like `pytest.mark.parametrize`, but one test for all cases, because a test costs four milliseconds.

    All cases run, with the same fixtures; those that fail are reported together, each with its id.
    """
    cases = list(cases)

    def decorate(test: Callable) -> Callable:
        @functools.wraps(test)
        def run_all(**fixtures):
            errors = []
            for case in cases:
                try:
                    test(**{name: case}, **fixtures)
                except Exception as error:  # noqa: BLE001 - raised below
                    error.add_note(f"The case is {ids(case)}.")
                    errors.append(error)
            if errors:
                raise ExceptionGroup(f"{len(errors)} of {len(cases)} cases failed", errors)

        signature = inspect.signature(test)
        others = [parameter for parameter in signature.parameters.values() if parameter.name != name]
        run_all.__signature__ = signature.replace(parameters=others)
        return run_all

    return decorate
