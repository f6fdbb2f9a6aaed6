-- A recording, format 1.  The bytes are authoritative: `segment` holds every body byte once, as it crossed
-- the wire.  `frame` and `finding` are derived from it.
-- Times are integer nanoseconds since the recording began, and strictly increase over all tables.

CREATE TABLE recording (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  upstream TEXT NOT NULL DEFAULT '',
  started TEXT NOT NULL,                        -- wall clock at time 0, ISO 8601 UTC
  started_unix_ns INTEGER NOT NULL,             -- the same, for arithmetic
  salt BLOB NOT NULL,                           -- key of the fingerprints that replace secrets
  redacted INTEGER NOT NULL DEFAULT 0,          -- number of redacted secrets
  indexed_ns INTEGER NOT NULL DEFAULT 0,        -- frames and findings are complete up to here
  part INTEGER NOT NULL DEFAULT 1,              -- number of this file of a rotated recording, from 1
  earlier_exchanges INTEGER NOT NULL DEFAULT 0, -- last exchange that began in an earlier file; 0: none
  continued INTEGER NOT NULL DEFAULT 0,         -- 1: the recording continues in another file
  contracts TEXT,                               -- contracts that it was checked with, as JSON; NULL: none
  probe TEXT                                    -- results of the cases of `wiretape probe`, as JSON; NULL: other traffic
) STRICT;

CREATE TABLE capture (                -- one row each time a proxy recorded into this file
  id INTEGER PRIMARY KEY,
  tool TEXT NOT NULL,
  began TEXT NOT NULL,                -- wall clock, ISO 8601 UTC
  began_ns INTEGER NOT NULL,
  ended_ns INTEGER                    -- NULL: still recording, or killed
) STRICT;

CREATE TABLE exchange (
  id INTEGER PRIMARY KEY,
  label TEXT NOT NULL,                -- for users: method, target, status
  client TEXT NOT NULL,
  method TEXT NOT NULL,
  scheme TEXT NOT NULL,
  authority TEXT NOT NULL,
  target TEXT NOT NULL,
  request_version TEXT NOT NULL,
  request_headers TEXT NOT NULL,      -- JSON: [[name, value], ...]; null: invented by an import
  started_ns INTEGER NOT NULL,
  request_ended_ns INTEGER,
  status INTEGER,
  reason TEXT,
  response_version TEXT,
  response_headers TEXT,
  responded_ns INTEGER,
  ending TEXT NOT NULL,
  detail TEXT NOT NULL,
  ended_ns INTEGER,
  contract TEXT,                      -- the contract that it belongs to ...
  operation TEXT,                     -- ... and its operation
  channel TEXT,                       -- what the path, or else an event, names as the channel
  cursor TEXT,                        -- the cursor of the request
  keys TEXT,                          -- JSON: the keys of entities that the path names, by the names of these
  request_bytes INTEGER NOT NULL,
  response_bytes INTEGER NOT NULL,
  lost_bytes INTEGER NOT NULL
) STRICT;
CREATE INDEX exchange_channel ON exchange (channel) WHERE channel IS NOT NULL;

CREATE TABLE segment (                -- consecutive chunks of one body; order of id is order of time
  id INTEGER PRIMARY KEY,
  exchange_id INTEGER NOT NULL REFERENCES exchange (id),
  response INTEGER NOT NULL,          -- 1: of the response, 0: of the request
  start INTEGER NOT NULL,             -- offset in the body
  time_ns INTEGER NOT NULL,           -- when the first chunk arrived
  chunks TEXT,                        -- JSON: [length, ns since time_ns, length, ns ...]; NULL: one chunk
  bytes BLOB NOT NULL
) STRICT;
CREATE INDEX segment_place ON segment (exchange_id, response, start);

CREATE TABLE lost (                   -- bytes that passed but were not recorded
  id INTEGER PRIMARY KEY,
  exchange_id INTEGER NOT NULL REFERENCES exchange (id),
  response INTEGER NOT NULL,
  start INTEGER NOT NULL,
  count INTEGER NOT NULL,
  time_ns INTEGER NOT NULL,
  why TEXT NOT NULL
) STRICT;

CREATE TABLE word (                   -- repeated texts, each stored once
  id INTEGER PRIMARY KEY,
  text TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE frame (                  -- derived: the frames of event streams
  exchange_id INTEGER NOT NULL REFERENCES exchange (id),
  start INTEGER NOT NULL,             -- offset in the (decoded) body
  length INTEGER NOT NULL,
  kind INTEGER NOT NULL REFERENCES word (id),
  time_ns INTEGER NOT NULL,           -- when the last byte arrived
  event INTEGER,                      -- number of the event in its stream, from 1
  name INTEGER REFERENCES word (id),  -- the `event:` line
  sse_id TEXT,                        -- the `id:` line
  sequence INTEGER,
  type INTEGER REFERENCES word (id),
  keys INTEGER REFERENCES word (id),  -- JSON: the keys of entities that it names, by the names of these
  data_offset INTEGER,                -- position of the data line's value in the frame ...
  data_length INTEGER,
  data TEXT,                          -- ... or the data itself if no single segment contains it
  PRIMARY KEY (exchange_id, start)
) STRICT, WITHOUT ROWID;

CREATE TABLE finding (                -- derived: findings of the live checks
  id INTEGER PRIMARY KEY,
  exchange_id INTEGER NOT NULL REFERENCES exchange (id),
  event INTEGER,
  code TEXT NOT NULL,
  severity TEXT NOT NULL,
  side TEXT NOT NULL,
  sequence INTEGER,
  byte_offset INTEGER,
  time_ns INTEGER NOT NULL,
  message TEXT NOT NULL
) STRICT;
