// One row of the timeline: the texts of its columns, worded as in `wiretape show`.

import { clockTime } from "./clock.js";
import { element, setClass, setText } from "./dom.js";
import { isCutOff } from "./exchange_heads.js";
import { SEVERITIES, SEVERITY_SIGNS, abbreviateId, formatCount, formatDuration, formatNumber, formatSize, formatTime, nameOfCall, printable, shorten, shortenNumber, worstSeverity } from "./format.js";
import { callKey, findingsOf } from "./timeline.js";
import { innerEntities, innerKey, keyOf, labelOf, matchesType, withFailure } from "./vocabulary.js";

export const ROW_HEIGHT = 24;
export const ROW_COLUMNS = [
  ["n", "event"], ["seq", "seq"], ["time", "time"], ["gap", "gap"], ["type", "type"], ["id", "id"], ["what", "content"], ["marks", ""],
];
const [TEXT_LONGEST, NEAR] = [400, 20];
/** The parts of the content: what is unusual, the text, the size of a run, and the key of an entity inside another one. */
const WHAT = ["note", "text", "tag", "call"];
/** A list at most so many pixels wide has no ids, or abbreviates them: as in page.css. */
const [WITHOUT_IDS, SHORT_IDS] = [960, 1040];
const LONG_ID = [7, 16]; // the characters at both ends that a wider column has room for

/** Fill the cells of a row in a list that is `width` pixels wide. */
export function fillRow(cells, item, node, timeline, width) {
  const texts = rowTexts(item, timeline);
  const isNarrow = width <= WITHOUT_IDS;
  if (texts.id) texts.id = abbreviateId(texts.id, width <= SHORT_IDS ? undefined : LONG_ID);
  if (texts.call && width <= SHORT_IDS) texts.call = abbreviateId(texts.call);
  if (isNarrow) texts.call = "";
  else if (texts.more) texts.tag = `${texts.tag} · ${texts.more}`;
  for (const name of ["n", "seq", "time", "gap", "type", "id"]) setText(cells[name], texts[name] || "");
  if (!cells.what.firstChild) cells.what.append(...WHAT.map((name) => element("span", { class: name })));
  WHAT.forEach((name, at) => setText(cells.what.children[at], texts[name] || ""));
  fillMarks(cells.marks, findingsOf(item, timeline), isNarrow ? 1 : 2);
  const late = texts.late ? " late" : "";
  setClass(node, `row ${texts.kind}${late}${item.within || item.kind === "delta" ? " within" : ""}`);
  if (texts.open === undefined) node.removeAttribute("aria-expanded");
  else node.setAttribute("aria-expanded", texts.open);
}

/** Show up to `most` codes and the severity of findings in a cell, or with `most` 0 only their number. */
export function fillMarks(cell, findings, most = 2) {
  const sorted = [...findings].sort((a, b) => SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity));
  const codes = [...new Set(sorted.map((one) => one.code))].slice(0, most);
  const more = findings.length > codes.length ? ` +${findings.length - codes.length}` : "";
  const label = !findings.length ? "" : most ? `${codes.join(" ")}${more}` : formatNumber(findings.length);
  const severity = findings.length ? worstSeverity(findings) : "";
  if (cell.dataset.label === label + severity) return;
  cell.dataset.label = label + severity;
  cell.replaceChildren();
  if (!label) return;
  const count = element("span", { class: "quiet", text: `${formatCount(findings.length, "finding")}, ${severity}: ` });
  const sign = element("span", { class: "sign", "aria-hidden": "true", text: `${SEVERITY_SIGNS[severity] || SEVERITY_SIGNS.error} ` });
  cell.append(element("span", { class: `mark ${severity}` }, sign, count, printable(label)));
}

/** The texts of an item, printable. */
function rowTexts(item, timeline) {
  if (item.kind === "delta") return deltaTexts(item, timeline);
  if (item.kind === "call") return callTexts(item, timeline);
  if (item.kind === "side") return sideTexts(item);
  const { row } = item;
  return Object.hasOwn(ROW_TEXTS, row.row) ? ROW_TEXTS[row.row](row, timeline) : { kind: "odd", type: printable(row.row) };
}

const ROW_TEXTS = {
  event: (row, timeline) => ({ ...eventTexts(row, timeline), tag: outcomeText(row, timeline) }),
  deltas: runTexts,
  pause: pauseTexts,
  end: endTexts,
  cut: (row) => otherTexts("cut", row, `${formatSize(row.end - row.start)} of an unfinished event`, row.preview),
  oversized: (row) => otherTexts("large", row, `event of ${formatSize(row.end - row.start)}, too large to be parsed`, row.preview),
  lost: (row) => otherTexts("lost", row, `${formatSize(row.count)} not recorded`, row.why),
  omitted: (row) => ({ kind: "pause short", n: "…", type: `╌╌ ${formatCount(row.last - row.first + 1, "event")} omitted ╌╌` }),
};

function timesOf(row) {
  const late = row.gap_ns >= 1e9;
  return { time: clockTime(row.time_ns), gap: `+${formatTime(row.gap_ns)}`, late };
}

function eventTexts(row, timeline) {
  const { head } = timeline;
  const sequence = row.sequence !== null && row.sequence !== undefined;
  return {
    kind: withFailure(row.kind, row.type, head),
    n: String(row.event),
    seq: sequence ? shortenNumber(row.sequence) : row.kind === "delta" ? "Δ" : "·",
    ...timesOf(row),
    type: row.type ? shorten(row.type, 80) : "(no type)",
    id: row.id === null ? "" : row.id ? shorten(row.id, 60) : "(empty id)",
    call: innerEntities(head).map(({ name }) => keyOf(row, name)).filter((key) => key !== null).map((key) => shorten(key, 40)).join(" "),
    note: row.note ? printable(row.note) : "",
    text: excerpt(row.preview, timeline),
  };
}

/** The beginning of a text, or if it is far from there, the first match of a text of the filter with what surrounds it. */
function excerpt(text, { texts = [] }) {
  const places = texts.map((one) => text.toLowerCase().indexOf(one.toLowerCase())).filter((at) => at >= 0);
  const from = Math.min(...places) - NEAR;
  return shorten(places.length && from > NEAR ? `…${text.slice(from).replace(/^[\udc00-\udfff]/, "")}` : text, TEXT_LONGEST);
}

/** The name and the duration of the entity inside another one that an event closes: `look_up · 51 ms`; empty if it closes none. */
function outcomeText(row, timeline) {
  const key = innerKey(row, timeline.head);
  const start = key && matchesType(key.entity.closes, row.type ?? "") && timeline.startOf(key.entity.name, key.id);
  if (!start) return "";
  const name = nameOfCall(start.preview);
  return `${name && `${shorten(name, 60)} · `}${formatDuration(row.time_ns - start.time_ns)}`;
}

function runTexts(row, timeline) {
  const open = timeline.isOpen(row);
  const parts = row.characters ? [formatCount(row.characters, "char")] : [];
  if (row.count > 1) parts.push(formatDuration(row.until_ns - row.time_ns));
  const more = row.characters > row.preview.length ? "…" : "";
  return {
    kind: "run", open, n: String(row.event), seq: "Δ", ...timesOf(row),
    type: `${open ? "▾" : "▸"} ${shorten(row.type || "(no type)", 60)}`, tag: formatCount(row.count, "delta"), more: parts.join(" · "),
    text: open ? "" : `${excerpt(row.preview, timeline)}${more}`,
  };
}

function deltaTexts(item, timeline) {
  const row = timeline.delta(item);
  return row ? eventTexts(row, timeline) : { kind: "delta", n: String(item.event), seq: "Δ", type: shorten(item.row.type, 80), text: "…" };
}

function callTexts(item, timeline) {
  const rows = item.call.rows.map((at) => timeline.rows[at]);
  const last = rows.at(-1);
  const open = timeline.open.has(callKey(item.call));
  const { entity } = item.call;
  const ended = matchesType(entity.closes, last.type);
  const parts = [formatCount(rows.length, "event"), formatDuration(last.time_ns - rows[0].time_ns)];
  parts.push(ended ? shorten(last.type.replace(/^.*\./, ""), 40) : "still open");
  return {
    kind: withFailure(ended ? "call" : "call unended", last.type, timeline.head), open, n: String(rows[0].event),
    seq: rows[0].sequence === null ? "·" : shortenNumber(rows[0].sequence), ...timesOf(rows[0]),
    type: `${open ? "▾" : "▸"} ${labelOf(entity.name)}`, call: shorten(item.call.id, 40), text: `${shorten(rows[0].preview, 200)}  ${parts.join(" · ")}`,
  };
}

function pauseTexts(row) {
  const long = row.until_ns - row.time_ns >= 1e9;
  const parts = long ? [formatDuration(row.until_ns - row.time_ns)] : [];
  if (row.keep_alives) parts.push(formatCount(row.keep_alives, "keep-alive"));
  return {
    kind: long ? "pause" : "pause short",
    type: `╌╌ ${parts.join(" · ")} ╌╌`, text: row.comment ? `: ${shorten(row.comment, TEXT_LONGEST)}` : "",
  };
}

function endTexts(row, timeline) {
  const parts = [formatCount(row.durable, "durable event"), formatCount(row.deltas, "delta")];
  if (row.ephemeral) parts.push(`${formatNumber(row.ephemeral)} other`);
  if (row.keep_alives) parts.push(formatCount(row.keep_alives, "keep-alive"));
  if (row.undecodable) parts.push(`cannot be decoded: ${printable(row.undecodable)}`);
  if (row.detail) parts.push(shorten(row.detail, TEXT_LONGEST));
  const bad = isCutOff(timeline.head);
  return {
    kind: bad ? "end bad" : "end", n: "end", time: row.time_ns === null ? "" : clockTime(row.time_ns),
    gap: `+${formatTime(row.gap_ns)}`, type: printable(row.ending_label), text: parts.join(" · "),
  };
}

function otherTexts(mark, row, type, text) {
  return { kind: "odd", n: mark, time: clockTime(row.time_ns), type, text: shorten(text || "", TEXT_LONGEST) };
}

function sideTexts({ row, side }) {
  if (side === "request") {
    const body = row.request_preview ? `  ${shorten(row.request_preview, TEXT_LONGEST)}` : "";
    return { kind: "durable", n: "→", time: clockTime(row.time_ns), type: printable(row.method), text: `${shorten(row.target, 200)}${body}` };
  }
  const bad = row.status === null || row.status >= 400;
  return {
    kind: bad ? "reply bad" : "reply", n: "←", time: row.ended_ns === null ? "" : clockTime(row.ended_ns),
    gap: row.ended_ns === null ? "" : `+${formatTime(row.ended_ns - row.time_ns)}`,
    type: row.status === null ? printable(row.ending_label) : `${row.status} ${printable(row.ending_label)}`,
    text: shorten(row.response_preview || row.detail || "", TEXT_LONGEST),
  };
}
