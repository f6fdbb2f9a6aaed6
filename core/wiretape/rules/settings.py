"""What a project may set about the rules."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from wiretape.rules.finding import Severity


@dataclass(frozen=True, slots=True)
class Settings:
    """How the rules are applied; the defaults are those of the specification."""

    idempotency_header: str = "Idempotency-Key"
    """The header that carries an idempotency key; the specification does not name it."""
    keep_alive_tolerance_s: float = 2.0
    """Seconds that a keep-alive may be late by before the silence is a finding."""
    severities: Mapping[str, Severity] = field(default_factory=dict)
    """For rules by their code the severity of findings, where it is not that of the catalogue."""
    off: frozenset[str] = frozenset()
    """Codes of the rules that are not asked; their verdict is always `not-exercised`."""


DEFAULT = Settings()
