"""The mitmproxy addon.

It runs in `wiretape proxy`, under `mitmdump -s` and `mitmweb -s` (see `wiretape_proxy.mitmproxy_script`), and in any
other master: `master.addons.add(Wiretape())`.
"""

import asyncio
import logging
import re
from collections.abc import Sequence
from dataclasses import replace

from mitmproxy import exceptions
from mitmproxy.addonmanager import Loader
from mitmproxy.master import Master
from mitmproxy.proxy.mode_specs import ProxyMode, ReverseMode

from wiretape.addresses import join_upstreams
from wiretape.errors import InputError
from wiretape.safe_text import printable
from wiretape_proxy import mitmproxy_internals as internals
from wiretape_proxy.flow_capture import FlowCapture
from wiretape_proxy.flow_display import FlowDisplay
from wiretape_proxy.ipc_codec import CaptureBuffer
from wiretape_proxy.proxy_options import OPTIONS, PREFIX, Settings, dated_name, parse_options
from wiretape_proxy.recorder_client import RecorderClient

_MAINTAIN_EVERY_S = 1.0

_OPTION = re.compile(r"--(output|append|allow-code|contract)\b")

log = logging.getLogger(__name__)


class Wiretape:
    """Records and checks traffic."""

    def __init__(self, *, in_command: bool = False) -> None:
        """`in_command`: it runs in `wiretape proxy`, not in one of mitmproxy's programs."""
        self._in_command = in_command
        self.started = asyncio.Event()
        """Set once recording has begun or failed to begin."""
        self.error: InputError | None = None
        """Why recording could not begin."""
        self.recording = ""
        """The path of the recording once it is open."""
        self.recorder: RecorderClient
        self.addons: Sequence[object] = ()
        self._capture: FlowCapture
        self._master: Master
        self._settings = Settings()
        self._maintaining: asyncio.Task[None] | None = None

    def load(self, loader: Loader) -> None:
        """Declare the options as text: for a value that it cannot convert, mitmproxy silently disables the addon."""
        internals.convert_options_to_text(loader.master.options, [PREFIX + option.name for option in OPTIONS])
        for option in OPTIONS:
            loader.add_option(f"{PREFIX}{option.name}", str, option.default, option.addon_help)
        self._master = loader.master
        buffer = CaptureBuffer()
        self._capture = FlowCapture(loader.master, buffer, prepend_base=self._in_command)
        self.recorder = RecorderClient(buffer, internals.pause_reading)
        self.addons = (self._capture,)
        internals.patch(self._capture.warn_of_trailers)

    def configure(self, updated: set[str]) -> None:
        """Read the options.  Raises OptionsError for an invalid value."""
        if not any(name.startswith(PREFIX) for name in updated):
            return
        try:
            settings = self._parse_options()
        except ValueError as error:
            if self not in self._master.addons.chain and not self.started.is_set():
                return  # while it loads a script, mitmproxy shows a traceback; `running` reports the error instead
            raise exceptions.OptionsError(str(error)) from None
        if self.recording and settings.output != self._settings.output:
            raise exceptions.OptionsError(f"{PREFIX}output cannot change while {self.recording} is being recorded.")
        self._settings = self._capture.settings = settings

    def running(self) -> "asyncio.Task[None]":
        """Begin to record.

        Not a coroutine function: mitmproxy refuses those if it loads a script late.
        """
        return asyncio.ensure_future(self._start())

    def done(self) -> "asyncio.Task[None]":
        """End all exchanges and close the recording."""
        return asyncio.ensure_future(self._stop())

    def _parse_options(self) -> Settings:
        options = self._master.options
        return parse_options({option.name: getattr(options, PREFIX + option.name) for option in OPTIONS})

    async def _start(self) -> None:
        try:
            self._check_option_names()
            if not internals.listen_exceptions(self._master):
                await self._open()
        except InputError as error:
            self.error = error
            # In mitmproxy's programs, options have other names.
            message = str(error) if self._in_command else _OPTION.sub(_addon_option, str(error))
            log.error(message)  # noqa: TRY400 - the message is enough
        finally:
            self.started.set()

    def _check_option_names(self) -> None:
        """Raise InputError for unknown options, which mitmproxy ignores."""
        unknown = [name for name in self._master.options.deferred if name.startswith(PREFIX)]
        if unknown:
            names = ", ".join(PREFIX + option.name for option in OPTIONS)
            raise InputError(f"Unknown option {unknown[0]}: choose one of {names}.")

    async def _open(self) -> None:
        try:
            settings = self._settings = self._capture.settings = self._parse_options()
        except ValueError as error:
            raise InputError(str(error)) from None
        path = settings.output or dated_name()
        if self._master.addons.get("view") is not None:  # it has a user interface
            self._capture.display = FlowDisplay(self._master, path)
            self.recorder.on_status = self._capture.display.add_findings
        await self.recorder.open(replace(settings, output=path), self._upstream())
        self._capture.first_exchange = self.recorder.first_exchange
        self.recording = path
        log.info("Recording to %s.", printable(path))
        self._maintaining = asyncio.create_task(self._maintain())

    def _upstream(self) -> str:
        """Return the address that is proxied, as far as it is known."""
        if self._settings.upstream is not None:
            return self._settings.upstream.url
        modes = [ProxyMode.parse(mode) for mode in self._master.options.mode]
        reverse = [mode for mode in modes if isinstance(mode, ReverseMode)]
        return join_upstreams(mode.data if "://" in mode.data else f"{mode.scheme}://{mode.data}" for mode in reverse)

    async def _maintain(self) -> None:
        while True:
            await asyncio.sleep(_MAINTAIN_EVERY_S)
            await self._capture.close_idle()
            if self._capture.display is not None:
                await self._capture.display.refresh()

    async def _stop(self) -> None:
        if not self.recording:
            return
        if self._maintaining is not None:
            self._maintaining.cancel()
        self._capture.is_stopping = True
        await internals.shut_down(self._master)
        self._capture.end_all()
        await self.recorder.close()
        if self._capture.display is not None:
            await self._capture.display.refresh()
        if self.recorder.closed is not None:
            log.info(self.recorder.closed.line(self.recording))
        if self.recorder.lost:
            log.warning("%s passed unrecorded.", self.recorder.lost)


def _addon_option(found: re.Match[str]) -> str:
    """Return the name that an option of the command has in mitmproxy."""
    return PREFIX + found[1].replace("-", "_")
