"""`wiretape doctor`."""

import shutil
import socket
import sys
import tempfile
from pathlib import Path

import pytest
from invoke import invoke, succeed
from late_import import LateModule

from wiretape.recording import Writer
from wiretape_inspect.commands import doctor

INSTALL = "run pip install 'mitmproxy>=11.0.2,<13'"


@pytest.fixture(autouse=True)
def machine(tmp_path, monkeypatch):
    """A new user on a machine whose ports are free."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(doctor, "_PORTS", {0: "wiretape proxy"})


def diagnose() -> tuple[int, list[str]]:
    result = invoke("doctor")
    return result.exit_code, [line for line in result.output.splitlines() if not line.startswith("ok ")]


def test_a_new_machine_has_no_problem(tmp_path):
    assert [line[:12] for line in succeed("doctor").output.splitlines()[:2]] == ["ok       Pyt", "ok       mit"]
    assert diagnose()[1] == [
        f"missing  {tmp_path}/.mitmproxy has no certificate authority: wiretape proxy --mode regular creates one"
    ]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (
            None,
            (0, f"missing  mitmproxy: wiretape proxy, wiretape demo and the import of flow files need it; {INSTALL}"),
        ),
        ("10.4.2", (1, f"problem  mitmproxy 10.4.2 is not supported: {INSTALL}")),
        ("11.0.2", (0, None)),
        ("13.0.0", (1, f"problem  mitmproxy 13.0.0 is not supported: {INSTALL}")),
    ],
)
def test_the_version_of_mitmproxy_is_checked(version, expected, monkeypatch):
    monkeypatch.setattr(doctor, "installed_version", lambda name: version if name == "mitmproxy" else "1")
    monkeypatch.setattr(doctor, "requires", lambda _: ["mitmproxy; extra == 'proxy'"])
    status, lines = diagnose()
    assert (status, next((line for line in lines if INSTALL in line), None)) == expected


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("pip", "run pip install 'mitmproxy>=11.0.2,<13'"),
        ("pipx_metadata.json", "run pipx inject wiretape 'mitmproxy>=11.0.2,<13'"),
        ("uv-receipt.toml", "run uv pip install --python {prefix} 'mitmproxy>=11.0.2,<13'"),
    ],
)
def test_the_install_command_suits_the_installer_of_wiretape(file, expected, tmp_path, monkeypatch):
    """pipx and uv recognise their environments by these files."""
    monkeypatch.setattr(doctor, "installed_version", lambda name: None if name == "mitmproxy" else "1")
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / file).touch()
    assert diagnose()[1][0].endswith(expected.format(prefix=tmp_path))


def test_a_missing_required_package_is_a_problem(monkeypatch):
    monkeypatch.setattr(doctor, "requires", lambda _: ["no-such-package>=1.0", "click>=8.4"])
    assert diagnose()[0] == 1
    assert "problem  required packages are missing: run pip install no-such-package" in diagnose()[1]


def test_the_certificate_authority_is_checked(tmp_path, monkeypatch):
    folder = tmp_path / ".mitmproxy"
    LateModule("mitmproxy.certs").CertStore.from_store(folder, "mitmproxy", 2048)
    key, certificate = folder / "mitmproxy-ca.pem", folder / "mitmproxy-ca-cert.pem"
    reason = "TLS clients of wiretape proxy --mode regular must trust it"
    assert diagnose() == (0, [f"missing  the certificate authority {certificate} is not trusted: {reason}"])
    bundle = shutil.copy(certificate, tmp_path / "bundle.pem")
    monkeypatch.setenv("SSL_CERT_FILE", str(bundle))
    assert diagnose() == (0, [])
    key.chmod(0o644)
    assert diagnose() == (1, [f"problem  other users can read the private key {key}: run chmod 600 {key}"])


def test_a_port_in_use_is_a_problem(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(doctor, "_PORTS", {port: "wiretape proxy"})
        status, lines = diagnose()
    assert status == 1
    problem = (
        f"Cannot listen on 127.0.0.1:{port}: the port is in use; choose another with --listen, or 0 for a free one."
    )
    assert f"problem  wiretape proxy: {problem}" in lines


def test_folders_that_cannot_be_written_are_a_problem(monkeypatch):
    monkeypatch.chdir("/proc")
    monkeypatch.setattr(tempfile, "tempdir", "/proc")
    status, lines = diagnose()
    assert status == 1
    assert sum(line.startswith("problem  /proc cannot be written (") for line in lines) == 2


def test_a_recording_that_others_can_read_is_a_problem():
    for name, mode in (("private.db", 0o600), ("public.db", 0o640)):
        Writer.create(Path(name), upstream="http://service.test").close(1)
        Path(name).chmod(mode)
    Path("other.db").write_bytes(b"not a recording")
    status, lines = diagnose()
    assert status == 1
    assert lines[1:] == ["problem  other users may read public.db: run chmod 600 on it"]
