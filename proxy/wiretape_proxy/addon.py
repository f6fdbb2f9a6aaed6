"""The mitmproxy addon.

It runs in `wiretape proxy`, under `mitmdump -s` and `mitmweb -s` (see `wiretape_proxy.script`), and in a master
of one's own: `master.addons.add(Wiretape())`.
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

from wiretape.errors import InputError
from wiretape.safe_text import printable
from wiretape_proxy import internals, lines, patches
from wiretape_proxy.capture import Capture
from wiretape_proxy.drain import drain
from wiretape_proxy.feed import Feed
from wiretape_proxy.notes import Notes
from wiretape_proxy.settings import OPTIONS, PREFIX, Settings, dated_name, read
from wiretape_proxy.views import Views

_LOOK_EVERY_S = 1.0

log = logging.getLogger(__name__)


class Wiretape:
    """Records and judges what passes."""

    def __init__(self, *, command: bool = False) -> None:
        """`command`: it runs in `wiretape proxy`, not in a program of mitmproxy's."""
        self._command = command
        self.begun = asyncio.Event()
        """Set once recording has begun, or could not."""
        self.refused: InputError | None = None
        """Why recording could not begin."""
        self.recording = ""
        """The path of the recording, once it is open."""
        self.feed: Feed
        """Where what is noted goes."""
        self.addons: Sequence[object] = ()
        self._capture: Capture
        self._master: Master
        self._settings = Settings()
        self._looking: asyncio.Task[None] | None = None

    def load(self, loader: Loader) -> None:
        """Declare the options, as text: a value that mitmproxy cannot convert would switch the addon off in silence."""
        internals.as_text(loader.master.options, [PREFIX + option.name for option in OPTIONS])
        for option in OPTIONS:
            loader.add_option(f"{PREFIX}{option.name}", str, option.default, option.help)
        self._master = loader.master
        notes = Notes()
        self._capture = Capture(loader.master, notes, put_base_before=self._command)
        self.feed = Feed(notes, self._capture.slow_down)
        self.addons = (self._capture,)
        patches.install(self._capture.trailers_dropped)

    def configure(self, updated: set[str]) -> None:
        """Take the options in.  Raises OptionsError, in one sentence, for what makes no sense."""
        if not any(name.startswith(PREFIX) for name in updated):
            return
        try:
            settings = self._read()
        except ValueError as error:
            if self not in self._master.addons.chain and not self.begun.is_set():
                return  # mitmproxy, when it loads a script, shows a traceback; `running` will say it in one sentence
            raise exceptions.OptionsError(str(error)) from None
        if self.recording and settings.output != self._settings.output:
            raise exceptions.OptionsError(f"{PREFIX}output cannot change while {self.recording} is being recorded.")
        self._settings = self._capture.settings = settings

    def running(self) -> "asyncio.Task[None]":
        """Begin to record.

        Not a coroutine function, because mitmproxy refuses those where it loads a script late.
        """
        return asyncio.ensure_future(self._begin())

    def done(self) -> "asyncio.Task[None]":
        """End all exchanges and close the recording."""
        return asyncio.ensure_future(self._finish())

    def _read(self) -> Settings:
        options = self._master.options
        return read({option.name: getattr(options, PREFIX + option.name) for option in OPTIONS})

    async def _begin(self) -> None:
        try:
            if self._may_begin():
                await self._open()
        except InputError as error:
            self.refused = error
            log.error(self._worded(error.message))  # noqa: TRY400 - the sentence says it all
        finally:
            self.begun.set()

    def _may_begin(self) -> bool:
        """Whether the proxy itself started.  Raises InputError for unknown options, of which mitmproxy says nothing."""
        unknown = [name for name in self._master.options.deferred if name.startswith(PREFIX)]
        if unknown:
            names = ", ".join(PREFIX + option.name for option in OPTIONS)
            raise InputError(f"There is no option {unknown[0]}; those of wiretape are {names}.")
        proxyserver = self._master.addons.get("proxyserver")
        return not any(server.last_exception for server in proxyserver.servers)

    async def _open(self) -> None:
        try:
            settings = self._settings = self._capture.settings = self._read()
        except ValueError as error:
            raise InputError(str(error)) from None
        path = settings.output or dated_name()
        views = self._capture.views = Views.of(self._master, path)
        if views is not None:
            self.feed.watch(views.mark)
        await self.feed.open(replace(settings, output=path), self._upstream())
        self._capture.first_exchange = self.feed.first_exchange
        self.recording = path
        log.info("Recording to %s.", printable(path))
        self._looking = asyncio.create_task(self._look())

    def _worded(self, sentence: str) -> str:
        """What is said of options, with the names that they have here."""
        return sentence if self._command else re.sub(r"--(output|append)\b", rf"{PREFIX}\1", sentence)

    def _upstream(self) -> str:
        """Where the traffic goes, as far as that is set."""
        if self._settings.upstream is not None:
            return self._settings.upstream.url
        modes = [ProxyMode.parse(mode) for mode in self._master.options.mode]
        return ", ".join(mode.data for mode in modes if isinstance(mode, ReverseMode))

    async def _look(self) -> None:
        """What is looked after now and then."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            await self._capture.close_idle()
            if self._capture.views is not None:
                await self._capture.views.refresh()

    async def _finish(self) -> None:
        if not self.recording:
            return
        if self._looking is not None:
            self._looking.cancel()
        self._capture.stopping = True
        await drain(self._master)
        self._capture.end_all()
        await self.feed.close()
        if self._capture.views is not None:
            await self._capture.views.refresh()
        self._sum_up()

    def _sum_up(self) -> None:
        if self.feed.closed is not None:
            log.info(lines.summary(self.feed.closed, self.recording))
        if self.feed.lost_bytes:
            log.warning("%s passed unrecorded.", lines.volume(self.feed.lost_bytes).capitalize())
