// What a filter leaves of the rows of an exchange: the same rows as in `wiretape show`.

import { lastEvent } from "./timeline.js";
import { deltaText, keyOf, vocabularyOf } from "./vocabulary.js";

const PREVIEW_LENGTH = 400;

/** Split a run of deltas into the runs that a filter leaves.  `deltas` are its messages as rows, with their `data`. */
export function splitRun(run, deltas, matches, head) {
  const runs = [];
  let open = null;
  for (const delta of deltas) {
    if (!matches(delta)) open = null;
    else if (open) extendRun(open, delta, head);
    else runs.push(open = startRun(delta, head));
  }
  return runs.length === 1 && runs[0].count === run.count ? [run] : runs;
}

function startRun(delta, head) {
  const { exchange, event, time_ns, gap_ns, type, start, end } = delta;
  const keys = Object.fromEntries(vocabularyOf(head).entities.map(({ name }) => [`${name}_id`, keyOf(delta, name)]));
  return {
    row: "deltas", exchange, event, last_event: event, time_ns, gap_ns, until_ns: time_ns, type, ...keys, count: 1,
    characters: fragmentLength(delta, head), preview: firstCharacters(delta.preview, PREVIEW_LENGTH), start, end,
  };
}

function extendRun(run, delta, head) {
  const room = PREVIEW_LENGTH - Array.from(run.preview).length;
  run.last_event = delta.event;
  run.until_ns = delta.time_ns;
  run.count += 1;
  run.characters += fragmentLength(delta, head);
  run.preview += firstCharacters(delta.preview, room);
  run.end = delta.end;
}

function fragmentLength(delta, head) {
  return Array.from(deltaText(delta, head)).length;
}

function firstCharacters(text, length) {
  return Array.from(text.slice(0, 2 * length)).slice(0, length).join("");
}

/** Return a function that finds what `filtered`, the rows that a filter leaves, has of a row. */
export function rowLookup(filtered) {
  const known = new Map(filtered.map((row) => [rowKey(row), row]));
  return (row) => {
    const keys = row.event === undefined ? [rowKey(row)] : Array.from({ length: lastEvent(row) - row.event + 1 }, (_, at) => row.event + at);
    return keys.filter((key) => known.has(key)).map((key) => known.get(key));
  };
}

function rowKey(row) {
  return row.event ?? (row.row === "end" ? "end" : `${row.row} ${row.start ?? row.time_ns}`);
}
