"""The judging of one run of `wiretape replay`: what the options ask for, from the start to the reports."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from wiretape.config import Config, find_config, load_config
from wiretape.errors import InputError
from wiretape.safe_text import printable
from wiretape_replay.judging.judge import Judge
from wiretape_replay.judging.reports import Wanted, check_apart, recorded, write
from wiretape_replay.judging.telling import verdict


@dataclass(frozen=True, slots=True)
class Hearing:
    """A judge, and what is to be done with what it finds."""

    judge: Judge
    _wanted: Sequence[Wanted]
    _recording: Path | None
    _config: Sequence[str]

    @staticmethod
    @contextmanager
    def of(reports: Sequence[str], record: Path | None, config: Path | None, *, no_config: bool) -> "Iterator[Hearing]":
        """From the options.  What is recorded for reports alone is gone when the block is left.  Raises InputError."""
        settings = _config(config, without=no_config).settings
        wanted = [Wanted.of(text) for text in reports]
        check_apart(wanted, record)
        named = ["--no-config"] if no_config else ["--config", str(config)] if config is not None else []
        with recorded(record, wanted) as path:
            yield Hearing(Judge(settings, record=path), wanted, path, named)

    def verdict(self, played: Path) -> Iterator[str]:
        """What to say when the replay of the recording `played` has ended."""
        yield from verdict(self.judge.blame, printable(str(played)))
        if self.judge.failed is not None:
            yield f"The checks failed ({printable(self.judge.failed)}): there may be more to find."

    def report(self, fail_on: str) -> None:
        """Write the reports, a finding as bad as `fail_on` being a failure in them.  Raises InputError."""
        if self._recording is not None and self._wanted:
            write(self._wanted, self._recording, self._config, fail_on=fail_on)


def _config(path: Path | None, *, without: bool) -> Config:
    if path is not None and without:
        raise InputError("Give --config or --no-config, not both.")
    if without:
        return Config()
    return load_config(path) if path is not None else find_config(Path.cwd())
