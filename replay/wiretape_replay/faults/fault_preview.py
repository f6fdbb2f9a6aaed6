"""List what a fault script would hit in a recording, without serving it (`--dry-run`)."""

from collections.abc import Collection, Iterator, Mapping
from itertools import islice
from pathlib import Path

from wiretape.recording import open_recording
from wiretape.safe_text import shorten
from wiretape_replay.channel.channel_log import ChannelLog
from wiretape_replay.channel.recorded_channels import build_channels, find_known_channels
from wiretape_replay.faults.fault_schedule import action_label, position_label, requests_label
from wiretape_replay.faults.fault_script import (
    STREAMS,
    EventFilter,
    EventSelector,
    Fault,
    FaultRequest,
    FaultScript,
    Position,
    Reorder,
    as_tuple,
)
from wiretape_replay.faults.frame_damage import SendBytes, can_mutate
from wiretape_replay.replayed_contracts import ReplayedContracts
from wiretape_replay.server_options import ReplayOptions

_MOST_LISTED = 20
"""How many events the listing names for each fault."""


def preview_lines(recording_path: Path, options: ReplayOptions) -> Iterator[str]:
    """The lines of a dry run.  Raises RecordingError, and InputError for faults that the contract does not allow."""
    with open_recording(recording_path) as recording:
        contracts = options.contracts_for(recording)
        # Oddities of the recording are reported when it is replayed.
        channels = build_channels(recording, lambda _: None, contracts, options.matching_for(contracts)).by_name
        logs = {name: channel.log for name, channel in channels.items()}
        yield from list_hits(options.script, logs, contracts, find_known_channels(recording, contracts))


def list_hits(
    script: FaultScript,
    logs: Mapping[str, ChannelLog],
    contracts: ReplayedContracts,
    other_channels: Collection[str] = (),
) -> Iterator[str]:
    """The lines about what would be hit if each channel's stream were requested once, with deltas, from its beginning.

    `other_channels` are those of the recording without a log.  A fault on later connections is listed as if they began
    there as well, and events after a fault that ends a stream are listed too, because clients reconnect.
    """
    noun = contracts.main.noun
    if not script.faults:
        yield "The script has no faults."
    for fault in script.faults:
        yield f"{shorten(fault.name, 60)}: {action_label(fault)}{_limits_label(fault, logs, noun)}"
        hits = list(_find_hits(fault, logs, contracts))
        for hit in hits[:_MOST_LISTED]:
            yield f"  {'' if fault.probability == 1 else 'may: '}{hit}"
        if len(hits) > _MOST_LISTED:
            yield f"  and {len(hits) - _MOST_LISTED} more"
        if not hits:
            yield "  hits nothing in this recording"
        for channel in as_tuple(fault.channel):
            if channel not in logs and channel not in other_channels:
                yield f"  this recording has no {noun} {shorten(channel, 60)}"


def _find_hits(fault: Fault, logs: Mapping[str, ChannelLog], contracts: ReplayedContracts) -> Iterator[str]:
    if fault.events is None:
        return _response_hits(fault, logs, contracts.main.noun)
    # With a probability, any event may be among those that are hit.
    most = fault.skip + fault.times if fault.times is not None and fault.probability == 1 else None
    return islice(_event_hits(fault, fault.events, logs, contracts), fault.skip, most)


def _event_hits(
    fault: Fault, events: EventFilter, logs: Mapping[str, ChannelLog], contracts: ReplayedContracts
) -> Iterator[str]:
    position, numbers = fault.position or Position.BEFORE, as_tuple(fault.connection)
    for channel, log in logs.items():
        opened_by, number = log.opened_by or ("GET", ""), next(iter(numbers), None)
        described = contracts.describe(*opened_by)
        request = FaultRequest(*opened_by, described, channel=channel, stream=channel, connection=number)
        if not fault.matches(request):
            continue
        number, selector = 0, EventSelector(events, described.facts.contract.format)
        for place, entry in enumerate(log.entries):
            number += entry.is_event
            if not entry.is_event or not selector.selects(entry, number) or not _can_hit(fault, entry.data):
                continue
            where = f"{position_label(position, entry)}{_connections_label(fault)}"
            yield f"{log.noun} {shorten(channel, 60)}, position {place}: {where}"


def _response_hits(fault: Fault, logs: Mapping[str, ChannelLog], noun: str) -> Iterator[str]:
    for channel in as_tuple(fault.channel) or (None,):
        if channel is not None and channel not in logs and {*fault.requests} == {STREAMS}:
            continue
        of = f" of {noun} {shorten(channel, 60)}" if channel is not None else ""
        yield f"{requests_label(fault)}{of}{_connections_label(fault)}"


def _can_hit(fault: Fault, frame: bytes) -> bool:
    if fault.position is not Position.AT or isinstance(fault, Reorder):
        return True
    return can_mutate(fault, [SendBytes(frame)])


def _connections_label(fault: Fault) -> str:
    numbers = " or ".join(str(number) for number in as_tuple(fault.connection))
    return f", on connection {numbers}" if numbers else ""


def _limits_label(fault: Fault, logs: Mapping[str, ChannelLog], noun: str) -> str:
    parts = []
    if fault.skip:
        parts.append(f"after the first {fault.skip}")
    if fault.times is not None:
        parts.append("once" if fault.times == 1 else f"{fault.times} times")
        if len(as_tuple(fault.channel) or logs) > 1:
            parts.append(f"counted across all {noun}s, in the order of the requests")
    if fault.probability < 1:
        parts.append(f"with probability {fault.probability:g}")
    return f" ({', '.join(parts)})" if parts else ""
