"""`wiretape doctor`: check this machine, and list what is missing and the commands that need it."""

import os
import re
import socket
import ssl
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path
from typing import Literal

import click

from wiretape.errors import MITMPROXY, OTLP, install_command
from wiretape.network_errors import describe_listen_error
from wiretape.recording import is_sqlite_file
from wiretape.versions import installed_version
from wiretape_inspect.terminal_output import labelled, write_lines

_PORTS = {8080: "wiretape proxy", 8090: "wiretape replay and serve"}
"""The default ports, and the commands that listen on them."""
_STYLES = {"ok": "good", "missing": "gap", "problem": "bad"}
_CA_FOLDER = Path("~/.mitmproxy")
_NAME = re.compile(r"[\w.-]+")
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----(.*?)-----END CERTIFICATE-----", re.DOTALL)
_OTHERS = stat.S_IRWXG | stat.S_IRWXO
"""The permissions of everybody but the owner."""


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """The result of one check."""

    level: Literal["ok", "missing", "problem"]
    """missing: some commands or options do not work. problem: something is wrong."""
    message: str


@click.command()
def doctor() -> None:
    """Check Python, mitmproxy, certificates, ports and file modes; list what is missing and the commands that need it.

    Exit status: 0 if nothing is wrong, even if optional parts are missing; 1 if there is a problem.
    """
    checks = (_check_python, _check_mitmproxy, _check_opentelemetry, _check_authority, _check_ports, _check_folders)
    diagnoses = [each for check in checks for each in check()]
    write_lines(labelled((f"{each.level:8} ", _STYLES[each.level]), each.message) for each in diagnoses)
    sys.exit(any(each.level == "problem" for each in diagnoses))


def _check_python() -> Iterator[Diagnosis]:
    yield Diagnosis("ok", f"Python {sys.version.split()[0]}")
    try:
        requirements = [each for each in requires("wiretape") or () if "extra ==" not in each]
    except PackageNotFoundError:
        yield Diagnosis("problem", "wiretape is not installed as a package: run pip install in the wiretape checkout")
        return
    names = [match.group() for each in requirements if (match := _NAME.match(each))]
    missing = [name for name in names if installed_version(name) is None]
    if missing:
        yield Diagnosis("problem", f"required packages are missing: run pip install {' '.join(missing)}")


def _check_mitmproxy() -> Iterator[Diagnosis]:
    found = installed_version("mitmproxy")
    needs = "wiretape proxy, wiretape demo and the import of flow files need it"
    if found is None:
        yield Diagnosis("missing", f"mitmproxy: {needs}; run {install_command(MITMPROXY)}")
        return
    oldest, end = (_release(bound) for bound in MITMPROXY.split(","))
    if oldest <= _release(found) < end:
        yield Diagnosis("ok", f"mitmproxy {found}")
    else:
        yield Diagnosis("problem", f"mitmproxy {found} is not supported: run {install_command(MITMPROXY)}")


def _check_opentelemetry() -> Iterator[Diagnosis]:
    if installed_version(OTLP.partition(">")[0]) is None:
        needs = "wiretape proxy --otlp and wiretape export --format otlp need it"
        yield Diagnosis("missing", f"opentelemetry: {needs}; run {install_command(OTLP)}")


def _release(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)]


def _check_authority() -> Iterator[Diagnosis]:
    """Check mitmproxy's certificate authority, which `wiretape proxy --mode regular` uses."""
    folder = _CA_FOLDER.expanduser()
    key, certificate = folder / "mitmproxy-ca.pem", folder / "mitmproxy-ca-cert.pem"
    try:
        if key.stat().st_mode & _OTHERS:
            yield Diagnosis("problem", f"other users can read the private key {key}: run chmod 600 {key}")
        text = certificate.read_bytes()
    except FileNotFoundError:
        yield Diagnosis("missing", f"{folder} has no certificate authority: wiretape proxy --mode regular creates one")
        return
    except OSError as error:
        yield Diagnosis("problem", f"{error.filename} cannot be read: {error.strerror}")
        return
    if _certificates(text) & _trusted_certificates():
        yield Diagnosis("ok", f"the certificate authority in {folder} is trusted")
    else:
        yield Diagnosis(
            "missing",
            f"the certificate authority {certificate} is not trusted: TLS clients of wiretape proxy --mode regular "
            "must trust it",
        )


def _certificates(text: bytes) -> set[bytes]:
    return {b"".join(body.split()) for body in _CERTIFICATE.findall(text)}


def _trusted_certificates() -> set[bytes]:
    """Return the certificates that Python and OpenSSL trust by default."""
    paths = ssl.get_default_verify_paths()
    files = [Path(paths.cafile)] if paths.cafile else []
    with suppress(OSError):
        files += Path(paths.capath).iterdir() if paths.capath else ()
    found = set()
    for path in files:
        with suppress(OSError):
            found |= _certificates(path.read_bytes())
    return found


def _check_ports() -> Iterator[Diagnosis]:
    for port, commands in _PORTS.items():
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError as error:
            yield Diagnosis("problem", f"{commands}: {describe_listen_error('127.0.0.1', port, error)}")
        else:
            yield Diagnosis("ok", f"port {port} is free for {commands}")


def _check_folders() -> Iterator[Diagnosis]:
    for folder, purpose in ((Path.cwd(), "recordings"), (Path(tempfile.gettempdir()), "temporary recordings")):
        try:
            with tempfile.NamedTemporaryFile(dir=folder) as file:
                is_private = not os.fstat(file.fileno()).st_mode & _OTHERS
        except OSError as error:
            yield Diagnosis("problem", f"{folder} cannot be written ({error.strerror}): choose another with --output")
            continue
        if is_private:
            yield Diagnosis("ok", f"{folder} can hold private {purpose}")
        else:
            yield Diagnosis("problem", f"{folder} cannot hold private {purpose}: its file system ignores file modes")
    for path in sorted(Path.cwd().glob("*.db")):
        if path.stat().st_mode & _OTHERS and is_sqlite_file(path):
            yield Diagnosis("problem", f"other users may read {path.name}: run chmod 600 on it")
