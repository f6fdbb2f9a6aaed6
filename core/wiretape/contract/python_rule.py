"""Rules in Python: functions that contracts name, such as `package.module:function`."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from wiretape.contract.contract_stream import ContractStream
from wiretape.contract.primitive import EventPrimitive
from wiretape.errors import InputError, describe_failure, describe_import_failure
from wiretape.event import Event
from wiretape.rules.catalogue import Inconclusive, Outcome, Problem
from wiretape.safe_text import shorten

RuleFunction = Callable[[Event, ContractStream], Outcome]
"""Returns the outcome for an event: `None`, `HELD`, `problem(…)`, a list of `Problem`, or an `Inconclusive`."""
_NOT_ALLOWED: Final = Inconclusive("the rule is Python code, which runs only with --allow-code")
_REFERENCE = re.compile(r"[^\W\d]\w*(?:\.[^\W\d]\w*)*:[^\W\d]\w*(?:\.[^\W\d]\w*)*")


class PythonRule(EventPrimitive, frozen=True):
    """A function decides."""

    code: str
    """The code of the rule."""
    reference: str
    """`package.module:function`."""
    function: RuleFunction | None
    """None if it must not run."""

    def describe(self) -> str:
        """Return the docstring of the function, or a sentence with its name."""
        about = (self.function and self.function.__doc__) or f"The function `{self.reference}` finds a problem."
        return about.strip()

    def check(self, event: Event, stream: ContractStream) -> Outcome:
        """Call the function.  Raises InputError if it fails, or returns something else."""
        if self.function is None:
            return _NOT_ALLOWED
        try:
            outcome = self.function(event, stream)
        except Exception as error:  # noqa: BLE001 - whatever it is
            raise self._error(event, describe_failure(error)) from None
        if outcome is None or isinstance(outcome, Inconclusive):
            return outcome
        if isinstance(outcome, list | tuple) and all(isinstance(each, Problem) for each in outcome):
            return outcome
        raise self._error(event, f"it returned {shorten(repr(outcome), 60)}, which is not an outcome")

    def _error(self, event: Event, reason: str) -> InputError:
        where = f"event {event.number} of exchange {event.exchange}"
        return InputError(f"The rule {self.code} ({self.reference}) failed at {where}: {reason}.")


def check_reference(reference: str) -> None:
    """Raise ValueError unless a text can name a function."""
    if not _REFERENCE.fullmatch(reference):
        raise ValueError(f"expected package.module:function, got {reference!r}")


def import_function(reference: str, folder: Path | None) -> RuleFunction:
    """Import a function; its module may also be in a folder, after those of Python's path.  Raises ValueError."""
    check_reference(reference)
    module, _, name = reference.partition(":")
    try:
        with _on_path(folder):
            found: Any = reduce(getattr, name.split("."), import_module(module))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a module does when it is imported
        raise ValueError(f"cannot import {reference} ({describe_import_failure(error)})") from None
    if not callable(found):
        raise ValueError(f"{reference} is not a function")  # noqa: TRY004 - the contract has the wrong value
    function: RuleFunction = found
    return function


@contextmanager
def _on_path(folder: Path | None) -> Iterator[None]:
    """Let modules in a folder be found; last, so that none replaces another one."""
    if folder is None:
        yield
        return
    added = str(folder.resolve())
    sys.path.append(added)
    try:
        yield
    finally:
        sys.path.reverse()
        sys.path.remove(added)
        sys.path.reverse()
