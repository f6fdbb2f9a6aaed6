"""Operations of the control API, each declared once: a method with a docstring and annotated parameters.

Such a method is also an HTTP operation, with the same checks, and the source of the command and its options.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from inspect import Parameter, getdoc, signature
from typing import Any, Concatenate, ParamSpec, TypeVar, get_args, get_type_hints

import msgspec

from wiretape.input_validation import Source, validate

_P = ParamSpec("_P")
_S = TypeVar("_S")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class CommandOption:
    """How `wiretape control` gives a parameter; an annotation of the parameter."""

    flag: str | None
    """None: it is an argument."""
    help: str = ""
    metavar: str | None = None
    choices: type[StrEnum] | None = None
    """The values of a parameter that may also be a string in Python."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One HTTP method of an operation."""

    name: str
    help: str
    parameters: Mapping[str, tuple[Any, Any]]
    """The type, with its annotations, and the default of each parameter; `Parameter.empty` if it is required."""
    request: type[msgspec.Struct]
    """The parameters and the channel."""
    function: Callable[..., Any]
    """The method, which does not check its parameters."""
    result: Callable[[Any, Any], Mapping[str, object]] | None
    """Returns what the response contains besides the state, from the control and the result of the method."""
    has_state: bool
    """Whether the response contains the state."""

    def check(self, parameters: Mapping[str, object]) -> dict[str, Any]:
        """Return all parameters and the channel.  Raises InputError."""
        return msgspec.structs.asdict(validate(parameters, self.request, Source(self.name)))


OPERATIONS: dict[str, dict[str, Operation]] = {}
"""By name and HTTP method."""


def operation(
    name: str,
    http_method: str = "POST",
    *,
    result: Callable[[Any, Any], Mapping[str, object]] | None = None,
    has_state: bool = True,
) -> Callable[[Callable[Concatenate[_S, _P], _T]], Callable[Concatenate[_S, _P], _T]]:
    """Declare a method as an operation, and check its parameters; those that are positional-only exist in Python only.

    See Operation.
    """

    def declare(function: Callable[Concatenate[_S, _P], _T]) -> Callable[Concatenate[_S, _P], _T]:
        hints, declaration = get_type_hints(function, include_extras=True), signature(function)
        _, *all_parameters = declaration.parameters.values()
        in_python = sum(each.kind is Parameter.POSITIONAL_ONLY for each in all_parameters)
        parameters: dict[str, tuple[Any, Any]] = {}
        for each in all_parameters[in_python:]:
            if each.kind is Parameter.VAR_KEYWORD:  # the keys of a TypedDict, all optional
                (keys,) = get_args(hints[each.name])
                parameters |= {key: (hint, None) for key, hint in get_type_hints(keys, include_extras=True).items()}
            else:
                parameters[each.name] = hints[each.name], each.default
        fields: list[Any] = [
            (key, option.choices if (option := option_of(hint)) and option.choices else hint)
            + (() if default is Parameter.empty else (default,))
            for key, (hint, default) in parameters.items()
        ]
        request = msgspec.defstruct(
            name, [*fields, ("channel", str | None, None)], kw_only=True, forbid_unknown_fields=True
        )
        text = " ".join((getdoc(function) or "").partition("\n\n")[0].split())
        declared = Operation(name, text, parameters, request, function, result, has_state)
        OPERATIONS.setdefault(name, {})[http_method] = declared

        @wraps(function)
        def call(control: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
            declaration.bind(control, *args, **kwargs)
            named = dict(zip(parameters, args[in_python:], strict=False)) | kwargs
            checked = declared.check(named)
            del checked["channel"]
            run: Callable[..., _T] = function
            return run(control, *args[:in_python], **checked)

        return call

    return declare


def option_of(hint: Any) -> CommandOption | None:
    """The option in the annotations of a type."""
    return next((each for each in getattr(hint, "__metadata__", ()) if isinstance(each, CommandOption)), None)
