"""Recordings: SQLite files with observations.  `open_recording` reads them, `Writer` and `build_recording` write them.

`wiretape.recording.formats` reads and writes other file formats.
"""

from wiretape.recording.body_redaction import BodyRedaction as BodyRedaction
from wiretape.recording.derived_tables import DerivedTables as DerivedTables
from wiretape.recording.opener import copy_recording as copy_recording
from wiretape.recording.opener import open_recording as open_recording
from wiretape.recording.opener import recording_opener as recording_opener
from wiretape.recording.recording_builder import MAX_STATUS as MAX_STATUS
from wiretape.recording.recording_builder import RecordingMetadata as RecordingMetadata
from wiretape.recording.recording_builder import RecordingSource as RecordingSource
from wiretape.recording.recording_builder import build_recording as build_recording
from wiretape.recording.recording_builder import join_contracts as join_contracts
from wiretape.recording.recording_builder import known_rules as known_rules
from wiretape.recording.recording_builder import list_exchanges as list_exchanges
from wiretape.recording.recording_builder import move_observation as move_observation
from wiretape.recording.recording_builder import observe_body as observe_body
from wiretape.recording.recording_builder import order_observations as order_observations
from wiretape.recording.recording_builder import settings_of as settings_of
from wiretape.recording.recording_file import RecordingFile as RecordingFile
from wiretape.recording.recording_file import check_not_recording as check_not_recording
from wiretape.recording.recording_file import check_output as check_output
from wiretape.recording.recording_file import delete_journal as delete_journal
from wiretape.recording.recording_file import delete_recording as delete_recording
from wiretape.recording.recording_file import lock_for_writing as lock_for_writing
from wiretape.recording.recording_file import mark_as_probe as mark_as_probe
from wiretape.recording.recording_file import unlock as unlock
from wiretape.recording.recording_reader import Gap as Gap
from wiretape.recording.recording_reader import Recording as Recording
from wiretape.recording.recording_reader import TailPosition as TailPosition
from wiretape.recording.recording_writer import Writer as Writer
from wiretape.recording.redactor import REDACTED_PATTERN as REDACTED_PATTERN
from wiretape.recording.redactor import SHORTEST_WORD as SHORTEST_WORD
from wiretape.recording.redactor import RedactionPolicy as RedactionPolicy
from wiretape.recording.redactor import Redactor as Redactor
from wiretape.recording.redactor import overwrite as overwrite
from wiretape.recording.redactor import redact_urls as redact_urls
from wiretape.recording.schema import is_sqlite_file as is_sqlite_file
from wiretape.recording.table_rows import Capture as Capture
from wiretape.recording.table_rows import Exchange as Exchange
from wiretape.recording.table_rows import RecordingInfo as RecordingInfo
