// One row of the timeline: which text stands in which column.  The words are those of `wiretape show`.

const ROW_HEIGHT = 24;
const ROW_COLUMNS = [
  { name: "n", label: "event" },
  { name: "seq", label: "seq" },
  { name: "time", label: "time" },
  { name: "gap", label: "gap" },
  { name: "type", label: "type" },
  { name: "what", label: "content" },
  { name: "marks", label: "" },
];
const TEXT_LONGEST = 400;
/** How many characters of an id's beginning and end there is room for in a list that is so many pixels wide, if fewer than usual. */
const ID_ROOM = [{ until: 620, ends: [4, 4] }, { until: 900 }];
const GOOD_ENDINGS = ["complete", "service-closed", "client-closed", "open"];

/** Fill the cells of a row of the list. */
function fillRow(cells, item, node, timeline, wide) {
  const told = rowTexts(item, timeline);
  const room = ID_ROOM.find(({ until }) => wide <= until);
  if (room && told.id) told.tag = briefId(told.tag, room.ends);
  if (room && told.call) told.call = briefId(told.call, room.ends);
  for (const name of ["n", "seq", "time", "gap", "type"]) setText(cells[name], told[name] || "");
  fillWhat(cells.what, told);
  fillMarks(cells.marks, findingsOf(item, timeline));
  const late = told.late ? " late" : "";
  setClass(node, `row ${told.kind}${late}${item.within || item.kind === "delta" ? " within" : ""}`);
  if (told.open === undefined) node.removeAttribute("aria-expanded");
  else node.setAttribute("aria-expanded", told.open);
}

/** `tag` (SSE id), `call` (tool call), `note` (what is odd) and the text, in one cell. */
function fillWhat(cell, told) {
  if (!cell.firstChild) {
    for (const name of ["tag", "call", "note", "text"]) cell.append(make("span", { class: name }), " ");
  }
  const [tag, call, note, text] = cell.children;
  setText(tag, told.tag || "");
  setText(call, told.call || "");
  setText(note, told.note || "");
  setText(text, told.text || "");
}

function fillMarks(cell, findings) {
  const said = findings.length ? `${findings[0].code}${findings.length > 1 ? ` +${findings.length - 1}` : ""}` : "";
  const severity = findings.length ? worst(findings) : "";
  if (cell.dataset.said === said + severity) return;
  cell.dataset.said = said + severity;
  cell.replaceChildren();
  if (!said) return;
  const words = make("span", { class: "quiet", text: `${counted(findings.length, "finding")}, ${severity}: ` });
  const sign = make("span", { class: "sign", "aria-hidden": "true", text: `${SIGNS[severity] || SIGNS.error} ` });
  cell.append(make("span", { class: `mark ${severity}` }, sign, words, printable(said)));
}

/** The texts of an item, each safe to show. */
function rowTexts(item, timeline) {
  if (item.kind === "delta") return deltaTexts(item, timeline);
  if (item.kind === "call") return callTexts(item, timeline);
  if (item.kind === "side") return sideTexts(item);
  const { row } = item;
  switch (row.row) {
    case "event":
      return eventTexts(row);
    case "deltas":
      return runTexts(row, timeline);
    case "pause":
      return pauseTexts(row);
    case "end":
      return endTexts(row, timeline);
    case "cut":
      return oddTexts("cut", row, `${amount(row.end - row.start)} of an unfinished event`, row.preview);
    case "oversized":
      return oddTexts("large", row, `event of ${amount(row.end - row.start)}, too large to be looked into`, row.preview);
    case "lost":
      return oddTexts("lost", row, `${amount(row.count)} not recorded`, row.why);
    case "omitted":
      return { kind: "pause short", n: "…", type: `╌╌ ${counted(row.last - row.first + 1, "event")} left out ╌╌` };
    default:
      return { kind: "odd", type: printable(row.row), text: "" };
  }
}

function timesOf(row) {
  const late = row.gap_ns >= 1e9;
  return { time: moment(row.time_ns), gap: `+${moment(row.gap_ns)}`, late };
}

function eventTexts(row) {
  const sequence = row.sequence !== null && row.sequence !== undefined;
  return {
    kind: row.kind,
    n: String(row.event),
    seq: sequence ? digits(row.sequence) : row.kind === "delta" ? "Δ" : "·",
    ...timesOf(row),
    type: row.type ? shown(row.type, 80) : "(no type)",
    id: Boolean(row.id),
    tag: row.id === null ? "" : row.id ? shown(row.id, 60) : "(empty id)",
    call: row.tool_call_id === null ? "" : shown(row.tool_call_id, 40),
    note: row.note ? printable(row.note) : "",
    text: shown(row.preview, TEXT_LONGEST),
  };
}

function runTexts(row, timeline) {
  const open = timeline.isOpen(row);
  const parts = [counted(row.count, "delta")];
  if (row.characters) parts.push(counted(row.characters, "char"));
  if (row.count > 1) parts.push(duration(row.until_ns - row.time_ns));
  const more = row.characters > row.preview.length ? "…" : "";
  return {
    kind: "run", open, n: String(row.event), seq: "Δ", ...timesOf(row),
    type: `${open ? "▾" : "▸"} ${shown(row.type || "(no type)", 60)}`, tag: parts.join(" · "),
    text: open ? "" : `${shown(row.preview, TEXT_LONGEST)}${more}`,
  };
}

function deltaTexts(item, timeline) {
  const row = timeline.delta(item);
  return row ? eventTexts(row) : { kind: "delta", n: String(item.event), seq: "Δ", type: shown(item.row.type, 80), text: "…" };
}

function callTexts(item, timeline) {
  const rows = item.call.rows.map((at) => timeline.rows[at]);
  const last = rows.at(-1);
  const open = timeline.open.has(callKey(item.call.id));
  const ended = CONTRACT.toolEnded.includes(last.type);
  const parts = [counted(rows.length, "event"), duration(last.time_ns - rows[0].time_ns)];
  parts.push(ended ? shown(last.type.replace(/^tool\./, ""), 40) : "still open");
  return {
    kind: ended ? "call" : "call unended", open, n: String(rows[0].event),
    seq: rows[0].sequence === null ? "·" : digits(rows[0].sequence), ...timesOf(rows[0]),
    type: `${open ? "▾" : "▸"} tool call`, call: shown(item.call.id, 40), text: `${parts.join(" · ")}  ${shown(rows[0].preview, 200)}`,
  };
}

function pauseTexts(row) {
  const long = row.until_ns - row.time_ns >= 1e9;
  const parts = long ? [duration(row.until_ns - row.time_ns)] : [];
  if (row.keep_alives) parts.push(counted(row.keep_alives, "keep-alive"));
  return {
    kind: long ? "pause" : "pause short",
    type: `╌╌ ${parts.join(" · ")} ╌╌`, text: row.comment ? `: ${shown(row.comment, TEXT_LONGEST)}` : "",
  };
}

function endTexts(row, timeline) {
  const parts = [counted(row.durable, "durable event"), counted(row.deltas, "delta")];
  if (row.ephemeral) parts.push(`${grouped(row.ephemeral)} other`);
  if (row.keep_alives) parts.push(counted(row.keep_alives, "keep-alive"));
  if (row.undecodable) parts.push(`cannot be decoded: ${printable(row.undecodable)}`);
  if (row.detail) parts.push(shown(row.detail, TEXT_LONGEST));
  const bad = !GOOD_ENDINGS.includes(timeline.head.ending);
  return {
    kind: bad ? "end bad" : "end", n: "end", time: row.time_ns === null ? "" : moment(row.time_ns),
    gap: `+${moment(row.gap_ns)}`, type: printable(row.ending_label), text: parts.join(" · "),
  };
}

function oddTexts(mark, row, words, text) {
  return { kind: "odd", n: mark, time: moment(row.time_ns), type: words, text: shown(text || "", TEXT_LONGEST) };
}

function sideTexts({ row, side }) {
  if (side === "request") {
    const body = row.request_preview ? `  ${shown(row.request_preview, TEXT_LONGEST)}` : "";
    return { kind: "durable", n: "→", time: moment(row.time_ns), type: printable(row.method), text: `${shown(row.target, 200)}${body}` };
  }
  const bad = row.status === null || row.status >= 400;
  return {
    kind: bad ? "reply bad" : "reply", n: "←", time: row.ended_ns === null ? "" : moment(row.ended_ns),
    gap: row.ended_ns === null ? "" : `+${moment(row.ended_ns - row.time_ns)}`,
    type: row.status === null ? printable(row.ending_label) : `${row.status} ${printable(row.ending_label)}`,
    text: shown(row.response_preview || row.detail || "", TEXT_LONGEST),
  };
}
