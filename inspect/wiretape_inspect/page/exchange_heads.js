// What the head of an exchange says: its path, its cursor, how it ended, and which exchanges belong together.

import { channelOf, keyOf, vocabularyOf } from "./vocabulary.js";

const GOOD_ENDINGS = ["complete", "service-closed", "client-closed", "open"];

export function pathOf(head) {
  return `${head.method} ${head.target}`;
}

/** The path without its query, from the channel on, and with the ends of other ids: `/runs/…0042/cancel`. */
export function shortPath(head) {
  const parts = head.target.replace(/[?#][^]*$/, "").split("/");
  const ids = vocabularyOf(head).entities.map((one) => keyOf(head, one.name));
  const isId = (part) => ids.includes(part) || part === channelOf(head) || /^(?=.*\d).{8,}$/.test(part);
  const at = parts.slice(0, -1).indexOf(channelOf(head));
  return (at < 0 ? parts : ["", ...parts.slice(at + 1)]).map((part) => (isId(part) ? endOfId(part) : part)).join("/");
}

/** What distinguishes an id from others of its kind. */
export function endOfId(id) {
  return id.length > 5 ? `…${id.slice(-4)}` : id;
}

/** Whether the response has no end, and the client did not close the connection itself. */
export function isCutOff(head) {
  return !GOOD_ENDINGS.includes(head.ending) || head.ending === "service-closed";
}

export function statusClass(head) {
  return head.status && head.status < 400 ? "status good" : "status bad";
}

export function endingClass(head) {
  if (isCutOff(head)) return "ending bad";
  return head.ending === "open" ? "ending open" : "ending";
}

/** Where to begin: the first stream with a finding, else the first stream, else the first exchange. */
export function firstExchange({ exchanges, findings }) {
  const found = new Set(findings.map((one) => one.exchange));
  const streams = exchanges.filter((head) => head.stream);
  return streams.find((head) => found.has(head.exchange)) || streams[0] || exchanges[0];
}

export function newestStream(exchanges) {
  return exchanges.findLast((head) => head.stream);
}

/** Whether two exchanges name the same channel, or none. */
export function isSameChannel(one, other) {
  return Boolean(other) && one.contract === other.contract && channelOf(one) === channelOf(other);
}

/** The streams of the channel that an exchange names, in order. */
export function connectionsOf(exchanges, head) {
  return exchanges.filter((one) => one.stream && isSameChannel(one, head));
}

/** A stream and the one before it in its channel, or else the one after it: `[first, second]`; null if it is the only one. */
export function connectionPair(exchanges, head) {
  if (!head || !head.stream) return null;
  const others = connectionsOf(exchanges, head).filter((one) => one.exchange !== head.exchange);
  const earlier = others.findLast((one) => one.exchange < head.exchange);
  if (earlier) return [earlier, head];
  return others.length ? [head, others[0]] : null;
}
