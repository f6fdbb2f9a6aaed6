// Reads the recording's data from an exported page: the same functions as in api_client.js.

import { SourceError, bytesFromBase64 } from "./api_client.js";
import { byId } from "./dom.js";
import { parseFilter } from "./filter_grammar.js";
import { needsMessages, rowSubject, wantedTexts } from "./filter_match.js";
import { deltaText, splitRun } from "./filtered_rows.js";
import { lastCharacters } from "./format.js";
import { JoinedTextSearch } from "./joined_text_search.js";
import { parseJson } from "./json.js";

const STATE_TEXT_LENGTH = 100000;
const BLOCKS_KEPT = 20;
const OMITTED = "is not in this file, which contains only what is near the findings.";

/** The list of recordings in a report: `{start, files}`; null on every other page. */
export function readReportIndex() {
  const found = byId("report");
  return found ? parseJson(found.textContent) : null;
}

/** The number of the recording that a URL fragment selects, from 1. */
export function recordingNumber(hash) {
  const number = Number(new URLSearchParams(hash.replace(/^#/, "")).get("f") || 1);
  return Number.isInteger(number) && byId(`data-${number}`) ? number : 1;
}

/** The source for recording `number` of the page; null if the page contains none. */
export function embeddedSource(number) {
  const found = byId(number > 1 ? `data-${number}` : "data");
  return found ? new EmbeddedSource(parseJson(found.textContent)) : null;
}

class EmbeddedSource {
  constructor(data) {
    Object.assign(this, { data, live: false, start: data.start || "", blocks: new Map(), states: new Map() });
  }

  async recording() {
    return this.data.recording;
  }

  async rows(exchange, take) {
    take(this.data.rows[exchange] || []);
  }

  async filteredRows(exchange, filter, matches) {
    const head = this.data.recording.exchanges.find((one) => one.exchange === exchange);
    const matchesRow = (row) => matches(rowSubject(row, head));
    const found = [];
    for (const { row, messages } of await this.searchedRows(exchange, filter)) {
      if (row.row === "deltas") found.push(...splitRun(row, messages, matchesRow));
      else if (row.row !== "exchange" && matchesRow(messages[0] || row)) found.push(row);
    }
    return found;
  }

  /** The rows of an exchange, each with its messages in full, and those with the texts of the filter that were found in them. */
  async searchedRows(exchange, filter) {
    const search = new JoinedTextSearch(wantedTexts(parseFilter(filter)));
    const rows = [];
    for (const row of this.data.rows[exchange] || []) {
      const messages = [];
      const last = row.row === "deltas" ? row.last_event : row.row === "event" ? row.event : 0;
      for (let event = row.event; event <= last; event += 1) {
        const message = await this.message(row, exchange, event);
        messages.push({ ...message, found: search.add(message, deltaText(message)) });
      }
      if (!messages.length && row.row !== "pause") search.interrupt();
      rows.push({ row, messages });
    }
    return rows;
  }

  /** How often a filter matches in each exchange, in the order of the exchanges. */
  async matches(filter, take, signal, matches) {
    const isQuick = !needsMessages(parseFilter(filter));
    for (const head of this.data.recording.exchanges) {
      if (signal.aborted) return;
      const rows = isQuick
        ? (this.data.rows[head.exchange] || []).filter((row) => (row.row !== "exchange" || !head.stream) && matches(rowSubject(row, head)))
        : (await this.filteredRows(head.exchange, filter, matches)).concat(head.stream ? [] : this.matchingHead(head, matches));
      const count = rows.reduce((sum, row) => sum + (row.row === "deltas" ? row.count : row.row === "event" ? 1 : 0), 0);
      if (rows.length) take([{ exchange: head.exchange, matches: count || 1 }]);
    }
  }

  matchingHead(head, matches) {
    return (this.data.rows[head.exchange] || []).filter((row) => row.row === "exchange" && matches(rowSubject(row, head)));
  }

  async deltas(exchange, first, last) {
    const found = [];
    for (let event = first; event <= last; event += 1) {
      const detail = await this.detail(exchange, event).catch(() => null);
      if (detail) found.push(detail);
    }
    return found;
  }

  async overview(exchange) {
    return this.data.overviews[exchange] || null;
  }

  async longestSilence() {
    return this.data.recording.longest_silence || null;
  }

  async event(exchange, event) {
    const detail = await this.detail(exchange, event);
    if (!this.states.has(exchange)) this.states.set(exchange, unpack(this.data.states[exchange]));
    const state = { ...stateAt(await this.states.get(exchange), event), time_ns: detail.time_ns };
    return withBytes({ ...detail, state });
  }

  async cut(exchange, start) {
    const found = (this.data.cuts[exchange] || []).find((cut) => cut.start === start);
    if (!found) throw new SourceError(`The unfinished event at byte ${start} of exchange ${exchange} ${OMITTED}`);
    return withBytes(found);
  }

  async bodies(exchange) {
    return (this.data.bodies || {})[exchange] || { request: null, response: null };
  }

  hasResume(first, second) {
    return `${first}:${second}` in this.data.resumes;
  }

  async resume(first, second) {
    const found = this.data.resumes[`${first}:${second}`];
    if (!found) throw new SourceError(`This file contains no comparison of exchanges ${first} and ${second}.`);
    return found;
  }

  /** A message in full, or as much of it as its row contains if the file omits it. */
  async message(row, exchange, event) {
    const detail = await this.detail(exchange, event).catch(() => null);
    return detail || { ...row, row: "event", kind: row.kind || "delta", event };
  }

  async detail(exchange, event) {
    const all = this.data.details[exchange] || [];
    const index = all.findIndex((block) => block.first <= event && event <= block.last);
    if (index < 0) {
      const { report } = this.data.recording;
      throw new SourceError(`Event ${event} of exchange ${exchange} ${report && report.radius !== null ? OMITTED : "does not exist."}`);
    }
    const name = `${exchange}/${index}`;
    if (!this.blocks.has(name)) {
      if (this.blocks.size > BLOCKS_KEPT) this.blocks.delete(this.blocks.keys().next().value);
      this.blocks.set(name, unpack(all[index].gzip));
    }
    return (await this.blocks.get(name))[event - all[index].first];
  }
}

/** Bytes that are UTF-8 are stored as text. */
function withBytes(detail) {
  return detail.base64 === undefined ? { ...detail, bytes: new TextEncoder().encode(detail.text) } : detail;
}

/** Unpack JSON from gzip and base64. */
async function unpack(base64) {
  const stream = new Blob([bytesFromBase64(base64)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return parseJson(await new Response(stream).text());
}

/** The state of the client just after an event: the result of all steps up to it. */
function stateAt(states, event) {
  const state = { exchange: states.exchange, event, session: "unknown", cursor: null, last_sequence: null, connections: states.connections };
  const texts = { text: null, reasoning: null };
  const [runs, calls] = [new Map(), new Map()];
  for (const [at, changes] of states.steps) {
    if (at > event) break;
    for (const name of ["session", "cursor", "last_sequence"]) if (name in changes) state[name] = changes[name];
    for (const name of ["text", "reasoning"]) if (name in changes) texts[name] = changes[name];
    for (const span of changes.runs || []) runs.set(span.id, { ...runs.get(span.id), ...span });
    for (const span of changes.calls || []) calls.set(span.id, { ...calls.get(span.id), ...span });
  }
  state.text = textAt(states.texts, texts.text);
  state.reasoning = textAt(states.texts, texts.reasoning);
  state.runs = [...runs.values()];
  state.open_calls = [...calls.values()].filter((call) => call.ended === null);
  return state;
}

function textAt(texts, location) {
  if (!location) return { text: "", characters: 0, final: false };
  const [index, units, characters, final] = location;
  const text = texts[index].slice(0, units);
  return { text: characters > STATE_TEXT_LENGTH ? lastCharacters(text, STATE_TEXT_LENGTH) : text, characters, final };
}
