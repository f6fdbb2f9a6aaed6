// The answers of the API that an exported page contains; page_export.py describes them.

import { byId } from "./dom.js";
import { parseJson } from "./json.js";

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

/** The answers about recording `number` of the page; null if the page contains none. */
export function recordedAnswers(number) {
  const found = byId(number > 1 ? `data-${number}` : "data");
  return found ? new RecordedAnswers(parseJson(found.textContent)) : null;
}

class RecordedAnswers {
  constructor({ answers, events, states }) {
    Object.assign(this, { answers, events, states, blocks: new Map() });
  }

  has(path) {
    return path in this.answers;
  }

  /** The answer to a request, a list for an endpoint that answers with lines; undefined if the page does not contain it. */
  async find(path) {
    if (this.has(path)) return this.answers[path];
    const [name, query] = path.split("?");
    const { exchange, event, first, last } = Object.fromEntries(new URLSearchParams(query));
    if (name === "/api/event") return this.event(exchange, Number(event));
    if (name !== "/api/events") return undefined;
    const events = Array.from({ length: last - first + 1 }, (_, at) => this.message(exchange, Number(first) + at));
    return (await Promise.all(events)).filter((each) => each);
  }

  /** Why there is no answer. */
  reasonFor(path) {
    const { report } = this.answers["/api/recording"];
    const query = Object.fromEntries(new URLSearchParams(path.split("?")[1]));
    if (query.event === undefined) return `This file does not contain the answer to ${path}.`;
    return `Event ${query.event} of exchange ${query.exchange} ${report && report.radius !== null ? OMITTED : "does not exist."}`;
  }

  async event(exchange, event) {
    const message = await this.message(exchange, event);
    if (!message) return undefined;
    const [changes, at] = await this.block(this.states, exchange, event);
    return { ...message, state: changes.slice(0, at + 1).reduce(changed, null) };
  }

  /** An event in full, without the state; undefined if the page does not contain it. */
  async message(exchange, event) {
    const [messages, at] = await this.block(this.events, exchange, event);
    return messages[at];
  }

  /** The block of `all` that contains an event, and the index of the event in it. */
  async block(all, exchange, event) {
    const block = (all[exchange] || []).find(({ first, last }) => first <= event && event <= last);
    if (!block) return [[], 0];
    if (!this.blocks.has(block)) {
      if (this.blocks.size > BLOCKS_KEPT) this.blocks.delete(this.blocks.keys().next().value);
      this.blocks.set(block, unpack(block.gzip));
    }
    return [await this.blocks.get(block), event - block.first];
  }
}

/** A value after a change, as find_change of page_export.py writes it. */
function changed(before, change) {
  if (Array.isArray(change)) return change.length === 1 ? change[0] : before.slice(change[0]) + change[1];
  const value = Array.isArray(before) ? before.slice(0, change.length) : { ...before };
  for (const [name, each] of Object.entries(change)) {
    if (!Array.isArray(before) || name !== "length") value[name] = changed(value[name], each);
  }
  return value;
}

/** Unpack JSON from gzip and base64. */
async function unpack(base64) {
  const stream = new Blob([bytesFromBase64(base64)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return parseJson(await new Response(stream).text());
}

export function bytesFromBase64(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  return Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
}

/** The bytes of an answer, which are text if they are UTF-8. */
export function bytesOf({ text, base64 }) {
  return base64 === undefined ? new TextEncoder().encode(text) : bytesFromBase64(base64);
}
