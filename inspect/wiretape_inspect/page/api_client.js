// Reads the recording's data through the API: from the server of the page, or from the answers in an exported page.

import { parseJson } from "./json.js";
import { PageFilter } from "./page_filter.js";

const WRITE_HEADERS = { "X-Wiretape-Debug": "1", "Content-Type": "application/json" };

/** The data cannot be read; the message is for the reader. */
export class SourceError extends Error {}

/** The source of all data.  `recorded` are the answers in the page, or null if it has a server. */
export function apiSource(recorded) {
  const fetchJson = (path) => (recorded ? findRecorded(recorded, path) : requestJson(path));
  const fetchLines = async (path, take, signal) => (recorded ? take(await findRecorded(recorded, path)) : requestLines(path, take, signal));
  const allLines = async (path, signal) => {
    const found = [];
    await fetchLines(path, (rows) => { for (const row of rows) found.push(row); }, signal);
    return found;
  };
  const source = {
    live: !recorded,
    recording: () => fetchJson("/api/recording"),
    rows: (exchange, take, signal, most) => fetchLines(`/api/rows?exchange=${exchange}${most ? `&most=${most}` : ""}`, take, signal),
    allRows: (exchange) => allLines(`/api/rows?exchange=${exchange}`),
    filteredRows: async (exchange, filter, _matches, signal) => {
      const found = await allLines(`/api/rows?exchange=${exchange}&filter=${encodeURIComponent(filter)}`, signal);
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
    hasResume: (first, second) => !recorded || recorded.has(`/api/resume?first=${first}&second=${second}`),
    resume: (first, second) => allLines(`/api/resume?first=${first}&second=${second}`),
    differences: (take) => fetchLines("/api/differences", take),
    other: { event: (exchange, event) => fetchJson(`/api/other/event?exchange=${exchange}&event=${event}`) },
    listen: (query) => new EventSource(`/api/live?${query}`),
    replay: {
      state: () => fetchJson("/api/replay/state"),
      listen: () => new EventSource("/api/replay/events"),
      send: (method, path, body) => requestJson(`/api/replay/${path}`, { method, body: JSON.stringify(body) }),
    },
  };
  if (recorded) {
    const filter = new PageFilter(source);
    const filtering = { filteredRows: filter.filteredRows.bind(filter), matches: filter.matches.bind(filter) };
    Object.assign(source, { ...filtering, test: undefined });
  }
  return source;
}

async function findRecorded(recorded, path) {
  const answer = await recorded.find(path);
  if (answer === undefined) throw new SourceError(recorded.reasonFor(path));
  return answer;
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

async function requestJson(path, options) {
  const response = await request(path, options);
  return parseJson(await response.text());
}

/** Hand over the JSON lines of a response as they arrive, many at once. */
async function requestLines(path, take, signal) {
  const response = await request(path, undefined, signal);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    const lines = (rest + (value || "")).split("\n");
    rest = done ? "" : lines.pop();
    const rows = parseJson(`[${lines.filter((line) => line)}]`);
    const failed = rows.find((row) => row.error && !row.row);
    if (failed) throw new SourceError(failed.error.message || "The rest of the recording cannot be read.");
    if (rows.length) take(rows);
    if (done) return;
  }
}
