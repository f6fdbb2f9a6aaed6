-- Views for users, in which `contract_views` replaces the names after a dollar sign.  wiretape does not read them, so
-- views and columns can be added without a new format.
-- `time` is the wall clock, ISO 8601 UTC; `..._ms` are milliseconds, `at_ms` and those of starts and ends since the
-- recording began.

CREATE VIEW events AS
  SELECT
    (SELECT strftime('%Y-%m-%dT%H:%M:%S', (w.started_unix_ns + f.time_ns) / 1000000000, 'unixepoch')
      || printf('.%06dZ', (w.started_unix_ns + f.time_ns) / 1000 % 1000000) FROM recording w) AS time,
    f.exchange_id, f.event, t.text AS type, f.sequence,
    (f.time_ns - (
      SELECT p.time_ns FROM frame p WHERE p.exchange_id = f.exchange_id AND p.start < f.start
      ORDER BY p.start DESC LIMIT 1)) / 1000000 AS gap_ms,
    ${channels}${keys}f.sse_id,
    coalesce(f.data, (
      SELECT CAST(substr(s.bytes, f.start + f.data_offset - s.start + 1, f.data_length) AS TEXT) FROM segment s
      WHERE s.exchange_id = f.exchange_id AND s.response = 1 AND s.start <= f.start + f.data_offset
      ORDER BY s.start DESC LIMIT 1)) AS data,
    n.text AS name, f.time_ns / 1000000 AS at_ms, f.start AS byte_offset, f.length AS byte_length
  FROM frame f JOIN exchange x ON x.id = f.exchange_id
    LEFT JOIN word n ON n.id = f.name LEFT JOIN word t ON t.id = f.type
    LEFT JOIN word k ON k.id = f.keys
  WHERE f.event IS NOT NULL;

CREATE VIEW exchanges AS
  SELECT
    (SELECT strftime('%Y-%m-%dT%H:%M:%S', (w.started_unix_ns + x.started_ns) / 1000000000, 'unixepoch')
      || printf('.%06dZ', (w.started_unix_ns + x.started_ns) / 1000 % 1000000) FROM recording w) AS time,
    x.id AS exchange_id, x.label, x.operation, x.status, x.ending, x.detail, ${channels}${request_keys}
    (x.responded_ns - x.started_ns) / 1000000 AS answered_ms, (x.ended_ns - x.started_ns) / 1000000 AS duration_ms,
    x.request_bytes, x.response_bytes, x.lost_bytes,
    (SELECT count(f.event) FROM frame f WHERE f.exchange_id = x.id) AS events,
    (SELECT count(*) FROM finding g WHERE g.exchange_id = x.id) AS findings,
    x.method, x.target, x.started_ns / 1000000 AS at_ms
  FROM exchange x;

-- Views of channels and entities;

CREATE VIEW gaps AS
  SELECT
    (SELECT strftime('%Y-%m-%dT%H:%M:%S', (w.started_unix_ns + g.time_ns) / 1000000000, 'unixepoch')
      || printf('.%06dZ', (w.started_unix_ns + g.time_ns) / 1000 % 1000000) FROM recording w) AS time,
    g.gap_ms, coalesce(t.text, k.text) AS ended_by, ${channels}g.exchange_id, g.event, x.label,
    g.time_ns / 1000000 AS at_ms, g.start AS byte_offset
  FROM (
    SELECT exchange_id, start, time_ns, event, type, kind,
      (time_ns - lag(time_ns) OVER (PARTITION BY exchange_id ORDER BY start)) / 1000000 AS gap_ms FROM frame) g
    JOIN exchange x ON x.id = g.exchange_id JOIN word k ON k.id = g.kind LEFT JOIN word t ON t.id = g.type
  WHERE g.gap_ms >= 1000;

CREATE VIEW resumes AS
  SELECT e.time, r.exchange_id, ${resume_channels}r.status, r.cursor AS last_event_id, r.cursor_sequence, r.first_sequence,
    r.last_sequence,
    iif(r.cursor_sequence IS NULL, NULL,
      (SELECT count(*) FROM frame f WHERE f.exchange_id = r.exchange_id AND f.sequence <= r.cursor_sequence))
      AS repeated_events,
    iif(r.cursor_sequence IS NULL, NULL, (
      SELECT count(DISTINCT f.sequence) FROM exchange y JOIN frame f ON f.exchange_id = y.id
      WHERE y.contract = r.contract AND y.channel = r.channel AND f.sequence > r.cursor_sequence AND f.sequence < r.last_sequence
        AND f.sequence NOT IN (
          SELECT h.sequence FROM frame h WHERE h.exchange_id = r.exchange_id AND h.sequence IS NOT NULL)))
      AS lost_events,
    r.at_ms, e.label
  FROM (
    SELECT c.*,
      (SELECT max(f.sequence) FROM exchange y JOIN frame f ON f.exchange_id = y.id
        WHERE y.contract = c.contract AND y.channel = c.channel AND ${is_cursor}) AS cursor_sequence
    FROM (
      SELECT x.id AS exchange_id, x.contract, x.channel, x.cursor, x.started_ns / 1000000 AS at_ms, x.status,
        (SELECT min(f.sequence) FROM frame f WHERE f.exchange_id = x.id) AS first_sequence,
        (SELECT max(f.sequence) FROM frame f WHERE f.exchange_id = x.id) AS last_sequence
      FROM exchange x WHERE x.cursor IS NOT NULL) c) r
    JOIN exchanges e ON e.exchange_id = r.exchange_id;

CREATE VIEW events_by_type AS
  SELECT coalesce(t.text, n.text, '(none)') AS type, count(*) AS events, count(DISTINCT f.sse_id) AS ids,
    count(DISTINCT f.exchange_id) AS connections, sum(f.length) AS bytes, max(f.length) AS longest_bytes
  FROM frame f LEFT JOIN word t ON t.id = f.type LEFT JOIN word n ON n.id = f.name
  WHERE f.event IS NOT NULL GROUP BY 1;

CREATE VIEW findings_with_events AS
  SELECT
    (SELECT strftime('%Y-%m-%dT%H:%M:%S', (w.started_unix_ns + g.time_ns) / 1000000000, 'unixepoch')
      || printf('.%06dZ', (w.started_unix_ns + g.time_ns) / 1000 % 1000000) FROM recording w) AS time,
    g.code, g.severity, g.side, g.message, g.exchange_id, g.event, e.type, e.sequence, e.sse_id, ${channels}e.data,
    x.label, g.time_ns / 1000000 AS at_ms, g.id AS finding_id
  FROM finding g JOIN exchange x ON x.id = g.exchange_id
    LEFT JOIN events e ON e.exchange_id = g.exchange_id AND e.event = g.event;

CREATE VIEW before_first_finding AS
  SELECT e.time, e.exchange_id, e.event, e.type, e.sequence, e.gap_ms, e.sse_id, ${channel_names}e.data,
    (SELECT group_concat(g.code || ': ' || g.message, char(10)) FROM finding g
      WHERE g.exchange_id = e.exchange_id AND g.event = e.event) AS finding
  FROM (
    SELECT exchange_id, start FROM frame
    WHERE event IS NOT NULL AND time_ns <= (SELECT min(time_ns) FROM finding)
    ORDER BY time_ns DESC LIMIT 50) l
    JOIN events e ON e.exchange_id = l.exchange_id AND e.byte_offset = l.start;

CREATE VIEW chunks AS
  SELECT s.exchange_id, iif(s.response, 'response', 'request') AS side,
    s.start + coalesce(sum(l.value) OVER (PARTITION BY s.id ORDER BY l.key), length(s.bytes)) AS end_offset,
    s.time_ns + coalesce(n.value, 0) AS time_ns
  FROM segment s LEFT JOIN json_each(s.chunks) l ON l.key % 2 = 0
    LEFT JOIN json_each(s.chunks) n ON n.key = l.key + 1;
