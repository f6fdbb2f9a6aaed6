// Reads the recording's data from the server of the page.  embedded_data.js does the same for an exported page.

import { parseJson } from "./json.js";

const WRITE_HEADERS = { "X-Wiretape-Debug": "1", "Content-Type": "application/json" };

/** The data cannot be read; the message is for the reader. */
export class SourceError extends Error {}

export function serverSource() {
  return {
    live: true,
    recording: () => fetchJson("/api/recording"),
    rows: (exchange, take, signal) => fetchLines(`/api/rows?exchange=${exchange}`, take, signal),
    filteredRows: async (exchange, filter) => {
      const found = await allLines(`/api/rows?exchange=${exchange}&filter=${encodeURIComponent(filter)}`);
      return found.filter((row) => row.row !== "exchange");
    },
    matches: (filter, take, signal) => fetchLines(`/api/matches?filter=${encodeURIComponent(filter)}`, take, signal),
    deltas: (exchange, first, last) => allLines(`/api/events?exchange=${exchange}&first=${first}&last=${last}`),
    overview: (exchange) => fetchJson(`/api/overview?exchange=${exchange}`),
    longestSilence: () => fetchJson("/api/longest-silence"),
    event: (exchange, event) => fetchJson(`/api/event?exchange=${exchange}&event=${event}`),
    findings: (exchange, event) => fetchJson(`/api/findings?exchange=${exchange}${event === null ? "" : `&event=${event}`}`),
    test: (exchange, event) => fetchJson(`/api/test?exchange=${exchange}&event=${event}`),
    cut: (exchange, start, event) => fetchJson(`/api/cut?exchange=${exchange}&start=${start}&event=${event}`),
    bodies: (exchange) => fetchJson(`/api/bodies?exchange=${exchange}`),
    hasResume: () => true,
    resume: (first, second) => allLines(`/api/resume?first=${first}&second=${second}`),
    differences: (take) => fetchLines("/api/differences", take),
    other: { event: (exchange, event) => fetchJson(`/api/other/event?exchange=${exchange}&event=${event}`) },
    listen: (query) => new EventSource(`/api/live?${query}`),
    replay: {
      state: () => fetchJson("/api/replay/state"),
      listen: () => new EventSource("/api/replay/events"),
      post: (path, body) => fetchJson(`/api/replay/${path}`, { method: "POST", body: JSON.stringify(body || {}) }),
      removeBreakpoint: (body) => fetchJson("/api/replay/breakpoints", { method: "DELETE", body: JSON.stringify(body) }),
    },
  };
}

async function request(path, options, signal) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: options ? WRITE_HEADERS : {}, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new SourceError("The debugger does not respond. Is it still running?");
  }
  if (response.ok) return response;
  const document = await response.json().catch(() => null);
  const message = document && document.error && document.error.message;
  throw new SourceError(message || `The debugger responded with status ${response.status}.`);
}

async function fetchJson(path, options) {
  const response = await request(path, options);
  return parseJson(await response.text());
}

/** Hand over the JSON lines of a response as they arrive, many at once. */
async function fetchLines(path, take, signal) {
  const response = await request(path, undefined, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    const lines = (rest + (value || "")).split("\n");
    rest = done ? "" : lines.pop();
    const rows = lines.filter((line) => line).map(parseLine);
    if (rows.length) take(rows);
    if (done) return;
  }
}

async function allLines(path) {
  const found = [];
  await fetchLines(path, (rows) => found.push(...rows));
  return found;
}

export function bytesFromBase64(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) bytes[at] = text.charCodeAt(at);
  return bytes;
}

function parseLine(line) {
  const row = parseJson(line);
  if (row.error && !row.row) throw new SourceError(row.error.message || "The rest of the recording cannot be read.");
  return row;
}
