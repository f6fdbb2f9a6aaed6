"""The steps of Containerfile and compose.yaml (docs/container.md) in a fresh directory tree.

Container engines are rarely at hand.  The tree stands for the root of the image; users, networks and read-only file
systems would need an engine.
"""

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from wiretape.recording import open_recording

ROOT = Path(__file__).parents[2]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
SERVICES = COMPOSE["services"]
ABSOLUTE = re.compile(r"(?<![\w./])/(?=src|opt|recordings|home)")
STUBS = ("useradd", "chown")
"""Programs that only root may run."""


def instructions() -> list[tuple[str, str]]:
    lines = (ROOT / "Containerfile").read_text("utf-8").splitlines()
    return [tuple(line.split(maxsplit=1)) for line in lines if line and not line.startswith("#")]


class Image:
    """A directory tree that is built as an image is."""

    def __init__(self, folder: Path) -> None:
        self.root, self.build, self.cwd = folder / "root", folder / "build", Path("/")
        programs = folder / "programs"
        programs.mkdir()
        (programs / "python").symlink_to(sys.executable)
        for name in STUBS:
            (programs / name).symlink_to(shutil.which("true"))
        packages = os.pathsep.join(path for path in sys.path if path.endswith("-packages"))
        self.env = {"PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": packages, "HOME": str(folder)}
        # What wiretape needs is that of this environment.
        self.pip = {"PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"}
        self.programs = programs
        self.config: dict[str, str] = {}

    def path(self, name: str) -> Path:
        return self.root / name.lstrip("/")

    def local(self, text: str) -> str:
        """Replace the absolute paths of the image by those in the tree."""
        return ABSOLUTE.sub(f"{self.root}/", text)

    def run(self, step: str, value: str) -> None:
        match step:
            case "FROM":
                if self.root.exists():
                    self.root.rename(self.build)
                self.root.mkdir()
                self.cwd = self.root
            case "WORKDIR":
                self.cwd = self.path(value)
                self.cwd.mkdir(parents=True, exist_ok=True)
            case "COPY" if value == ". .":
                copy_context(self.cwd)
            case "COPY":
                source, target = value.removeprefix("--from=build ").split()
                self.path(target).parent.mkdir(parents=True, exist_ok=True)
                (self.build / source.lstrip("/")).rename(self.path(target))
            case "RUN":
                self.path("/home/wiretape").mkdir(parents=True, exist_ok=True)
                command = ["sh", "-e", "-c", self.local(value)]
                subprocess.run(command, cwd=self.cwd, env=self.env | self.pip, check=True, timeout=200)
            case "ENV":
                name, _, given = value.partition("=")
                self.env[name] = self.local(given) + (f":{self.programs}" if name == "PATH" else "")
            case _:
                self.config[step] = value

    def start(self, arguments: list[str], **options) -> subprocess.Popen[str]:
        command = [*json.loads(self.config["ENTRYPOINT"]), *arguments]
        return subprocess.Popen(
            command, cwd=self.cwd, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
        )


def copy_context(target: Path) -> None:
    """Copy what .dockerignore leaves."""
    _, *kept = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    for name in (line.removeprefix("!") for line in kept if line.startswith("!")):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, target / name)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


@pytest.mark.timeout(300)
def test_the_image_records_and_closes_the_recording_on_sigterm(tmp_path):
    image = Image(tmp_path)
    for step, value in instructions():
        image.run(step, value)
    assert not image.path("/src").exists(), "the sources are in the first stage only"
    volumes = json.loads(image.config["VOLUME"])
    assert [image.path(name).is_dir() for name in volumes] == [True, True]
    assert (image.config["USER"], image.config["STOPSIGNAL"]) == ("10001", "SIGTERM")

    ports = {port: str(free_port()) for port in ("8080", "8090")}
    names = re.compile(r"\b(?:service|recorder|0\.0\.0\.0)(?=:80)|\b80[89]0\b")
    here = lambda text: names.sub(lambda found: ports.get(found[0], "127.0.0.1"), text)  # noqa: E731

    with contextlib.ExitStack() as stack:
        servers = []
        for name, line in (("service", "Serving hello"), ("recorder", "Listening on")):
            servers.append(stack.enter_context(image.start([here(word) for word in SERVICES[name]["command"]])))
            stack.callback(servers[-1].kill)
            assert line in servers[-1].stderr.readline()
        _, health = image.config["HEALTHCHECK"].split(" CMD ")
        for check in (json.loads(health), SERVICES["service"]["healthcheck"]["test"][1:]):
            subprocess.run([here(word) for word in check], env=image.env, check=True, timeout=100)
        client = [here(word) for word in SERVICES["client"]["entrypoint"]]
        environment = {**image.env, "PYTHONPATH": str(ROOT / ".ci")}
        done = subprocess.run(client, env=environment, stdout=subprocess.PIPE, text=True, check=True, timeout=100)
        assert done.stdout.splitlines()[-1] == "run.completed"
        recorder = servers[-1]
        recorder.send_signal(signal.SIGTERM)
        _, errors = recorder.communicate(timeout=100)

    assert recorder.returncode == 0, errors
    (path,) = image.path("/recordings").glob("*.db")
    with open_recording(path) as recording:
        assert recording.info.ended_ns is not None
        assert len(list(recording.exchanges())) == 3
