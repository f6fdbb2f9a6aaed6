"""Commands of wiretape and services of tests that run beside a test."""

import re
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from wiretape_process import WiretapeProcess

PATIENCE_S = 45


@contextmanager
def serve_in_thread(app) -> Iterator[str]:
    """Serve an ASGI application until the end of the block; yield its address."""
    # Importing it takes long, which every worker would spend that collects a file with such tests.
    import uvicorn  # noqa: PLC0415

    sock = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{sock.getsockname()[1]}"
    server.should_exit = True
    thread.join(PATIENCE_S)
    sock.close()


class Running:
    """A command that serves until it is stopped."""

    def __init__(self, *arguments: object, begin: str) -> None:
        command = [str(argument) for argument in arguments]
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        self.process = WiretapeProcess(*command, "--listen", "127.0.0.1:0", **pipes, text=True)
        self.lines: list[str] = []
        line = next(line for line in self.process.stderr if line.startswith(begin))
        self.url = re.search(r"http://[\d.:]+", line)[0]

    def stop(self) -> int:
        """Stop it as Ctrl-C does, and return its exit status; `lines` then has what it printed."""
        self.process.send_signal(signal.SIGINT)
        _, rest = self.process.communicate(timeout=PATIENCE_S)
        self.lines += rest.splitlines()
        return self.process.returncode
