"""The contracts that a recording stores: the texts of their files, so that it can be checked again anywhere."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta, Struct

from wiretape.contract.contract_tables import MOST_CHARACTERS, MOST_FILES
from wiretape.errors import InputError

MOST_CONTRACTS = 10
_Name = Annotated[str, Meta(min_length=1, max_length=300)]


class RecordedContract(Struct, forbid_unknown_fields=True):
    """A contract as a recording stores it."""

    name: _Name
    file: Annotated[str, Meta(max_length=300)]
    """The name of its file in `texts`."""
    texts: Annotated[dict[str, Annotated[str, Meta(max_length=MOST_CHARACTERS)]], Meta(max_length=MOST_FILES)]
    """The texts of its files by name; empty if it comes with wiretape, or was made in Python."""


class StoredContract(Protocol):
    """What a recording stores of a contract; see `RecordedContract`."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def file(self) -> str: ...  # noqa: D102
    @property
    def texts(self) -> Mapping[str, str]: ...  # noqa: D102


RecordedContracts = Annotated[list[RecordedContract], Meta(max_length=MOST_CONTRACTS)]


def dump_contracts(contracts: Sequence[StoredContract]) -> str | None:
    """Return contracts as a recording stores them, as JSON; None for none."""
    recorded = [RecordedContract(each.name, each.file, dict(each.texts)) for each in contracts]
    return msgspec.json.encode(recorded).decode() if recorded else None


def parse_contracts(stored: str | None, origin: str) -> list[RecordedContract]:
    """Return the contracts that a recording stores; messages call it `origin`.  Raises InputError."""
    if stored is None:
        return []
    try:
        return msgspec.json.decode(stored, type=RecordedContracts)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InputError(f"{origin} has invalid contracts: {error}.") from None
