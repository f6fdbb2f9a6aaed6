"""The files of a contract: its own, those that it extends and its schemas.  None outside its folder is read."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import orjson

from wiretape.contract.contract_tables import (
    MOST_CHARACTERS,
    MOST_FILES,
    AnyRuleTable,
    ContractTable,
    TrustedContractTable,
    TypeTable,
)
from wiretape.errors import InputError
from wiretape.files import path_exists, read_error
from wiretape.input_validation import Source, validate
from wiretape.installed_parts import CONTRACTS, part_names
from wiretape.toml_files import find_lines, parse_toml, read_toml_text, require_table_lists

BUNDLED = ("sse",)
"""The names of the contracts that come with wiretape."""
COMMON = "common"
"""The name of the file with the rules that every contract has."""
_EXTENDABLE = ("sse",)
_OWN = frozenset({COMMON, *BUNDLED})
"""The names of the files that come with wiretape."""
_MOST_LAYERS = 5


class CodeUse(Enum):
    """What happens to the Python code that the files of a contract name."""

    REFUSE = "refuse"
    """It is an error."""
    SKIP = "skip"
    """It is not imported; its rules are inconclusive."""
    RUN = "run"


class ContractFiles:
    """Reads the files of one contract, each once."""

    def __init__(
        self,
        folder: Path | None,
        texts: Mapping[str, str] | None = None,
        *,
        code: CodeUse = CodeUse.REFUSE,
        origin: str = "",
        is_installed: bool = False,
    ) -> None:
        """Without a folder, only the `texts` are known, by name; `origin` is where these come from, for messages."""
        self.is_installed = is_installed
        """Whether they belong to an installed package."""
        self.folder = folder
        """Where its files are, and maybe the modules of its rules."""
        self.texts = dict(texts or {})
        """What was read, by the name of the file in the folder; without bundled contracts."""
        self.code = code
        self.origin = origin

    def shown_name(self, name: str) -> str:
        """Return what error messages call a file."""
        if self.origin:
            return f"{self.origin}: {name}"
        return name if self.folder is None or name in _OWN else str(self.folder / name)

    def read(self, name: str) -> str:
        """Return the text of a file, or of a bundled contract, which nothing can replace.  Raises InputError."""
        if name in _OWN:
            return files(__package__).joinpath(f"{name}.toml").read_text("utf-8")
        if name not in self.texts:
            self.texts[name] = self._read(name)
            if len(self.texts) > MOST_FILES or sum(map(len, self.texts.values())) > MOST_CHARACTERS:
                most = f"{MOST_FILES} files or {MOST_CHARACTERS:,} characters"
                raise InputError(f"{self.shown_name(name)}: the contract has more than {most}: use fewer.")
        return self.texts[name]

    def _read(self, name: str) -> str:
        if self.folder is None:
            raise InputError(f"{self.shown_name(name)} is not a file of the contract.")
        path = self.folder / name
        try:
            if path.exists() and not path.is_file():
                raise InputError(f"{path} is not a regular file, so no contract can be read from it.")
            if not path.resolve().is_relative_to(self.folder.resolve()):
                raise InputError(f"{path} is a link to a file outside the folder of the contract, which is not read.")
        except OSError as error:
            raise InputError(read_error(path, error)) from None
        except (ValueError, RuntimeError) as error:
            raise InputError(f"{path} cannot be read: {error}.") from None
        return read_toml_text(path, "JSON" if path.suffix == ".json" else "TOML")


@lru_cache(maxsize=16)
def parse_contract(text: str, shown: str) -> dict[str, Any]:
    """Parse a file; kept, because the facts of an installed contract are read before its rules.

    Raises InputError.
    """
    return parse_toml(text, shown)


class Layer:
    """One contract file, before it is merged with those that it extends."""

    def __init__(self, contract_files: ContractFiles, name: str) -> None:
        """Raises InputError."""
        self.name = name
        self.files = contract_files
        text = contract_files.read(name)
        shown = contract_files.shown_name(name)
        document = parse_contract(text, shown)
        self.source = Source(shown, find_lines(text))
        require_table_lists(document, ["rule"], self.source)
        self.is_trusted = name in _OWN or (contract_files.is_installed and "traffic" in document)
        """Whether it comes with wiretape, or a package whose rules are in Python."""
        self.table: ContractTable | TrustedContractTable
        if self.is_trusted:
            self.table = validate(document, TrustedContractTable, self.source)
        else:
            self.table = validate(document, ContractTable, self.source)

    @property
    def rules(self) -> Sequence[AnyRuleTable]:
        """The tables of its rules."""
        return self.table.rule

    @property
    def types(self) -> Iterator[tuple[str, TypeTable]]:
        """What it says about types: that they have a schema, and their tables.  Raises InputError."""
        yield from ((name, TypeTable(schema=self.table.event.schemas)) for name in self.read_type_schemas())
        for name, table in self.table.types.items():
            if "*" in name:
                raise self.source.error(("types", name), "expected the name of one type, without *")
            yield name, table

    @property
    def extended(self) -> str | None:
        """The name of the contract that it extends."""
        extends = self.table.extends
        return extends if extends is None or extends in _EXTENDABLE else self._find(extends, ".toml", ("extends",))[0]

    def read_schema(self, name: str, *path: str | int) -> dict[str, Any]:
        """Return the JSON object in a file next to this one; `path` is the key that names it.  Raises InputError."""
        _, text = self._find(name, ".json", path)
        try:
            document = orjson.loads(text)
        except ValueError as error:
            raise self.source.error(path, f"{name} is not valid JSON ({error})") from None
        if not isinstance(document, dict):
            raise self.source.error(path, f"expected a JSON object in {name}")
        return document

    def read_type_schemas(self) -> dict[str, dict[str, Any]]:
        """Return the schemas of types in the file that the table `event` names, if there is one.  Raises InputError."""
        file, path = self.table.event.schemas, ("event", "schemas")
        document = {"types": {}} if file is None else self.read_schema(file, *path)
        types = document.get("types")
        if not isinstance(types, dict) or not all(isinstance(each, dict) for each in types.values()):
            raise self.source.error(path, "expected a JSON object with the schemas by type as `types`")
        return {name: {"$defs": document.get("$defs", {}), **schema} for name, schema in types.items()}

    @contextmanager
    def naming(self, *path: str | int) -> Iterator[None]:
        """Turn a ValueError into an InputError that names the file and the key."""
        try:
            yield
        except ValueError as error:
            raise self.source.error(path, str(error)) from None

    def _find(self, name: str, suffix: str, path: tuple[str | int, ...]) -> tuple[str, str]:
        """Return the name of a file in the folder of the contract, and its text; `path` is the key that names it."""
        resolved = posixpath.normpath(posixpath.join(posixpath.dirname(self.name), name))
        if not name.endswith(suffix) or not name.isprintable():
            expected = (
                f"{', '.join(_EXTENDABLE)}, or the name of a {suffix} file" if suffix == ".toml" else "a .json file"
            )
            raise self.source.error(path, f"expected {expected}, got {name!r}")
        if resolved.startswith(("../", "/")) or "\\" in name:
            raise self.source.error(path, f"expected a file in the folder of the contract, got {name!r}")
        try:
            return resolved, self.files.read(resolved)
        except InputError as error:
            raise self.source.error(path, str(error)) from None


def read_layers(contract_files: ContractFiles, name: str) -> list[Layer]:
    """Return the common rules, what a contract extends and the contract, in this order.  Raises InputError."""
    layers: list[Layer] = []
    following: str | None = name
    while following is not None:
        if following in [layer.name for layer in layers]:
            raise layers[-1].source.error(("extends",), f"{following} extends itself, through this file")
        if len(layers) == _MOST_LAYERS:
            raise layers[-1].source.error(("extends",), f"expected at most {_MOST_LAYERS} contracts that extend others")
        layers.append(Layer(contract_files, following))
        following = layers[-1].extended
    return [*([] if name == COMMON else [Layer(contract_files, COMMON)]), *layers[::-1]]


def open_files(name: str, code: CodeUse = CodeUse.REFUSE, *, is_installed: bool = False) -> tuple[ContractFiles, str]:
    """Return the files of the contract with a bundled name or in a file, and the name of the first.

    Raises InputError.
    """
    if name in BUNDLED:
        return ContractFiles(None), name
    path = Path(name)
    if not name or not path_exists(path):
        if path.suffix != ".toml" and path.name == name:
            known = ", ".join(sorted({*BUNDLED, *part_names(CONTRACTS)}))
            raise InputError(f"There is no contract {name!r}: use {known}, or the name of a file.")
        raise InputError(read_error(path, FileNotFoundError()))
    return ContractFiles(path.parent, code=code, is_installed=is_installed), path.name


def new_contract_text() -> str:
    """Return the text of a commented contract to begin with."""
    return files(__package__).joinpath("new.toml").read_text("utf-8")
