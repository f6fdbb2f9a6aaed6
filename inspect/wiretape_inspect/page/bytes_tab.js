// The bytes tab: the bytes of an event in hexadecimal and as text, with their offsets and the beginnings of chunks.

import { clockTime } from "./clock.js";
import { copyRaw } from "./copying.js";
import { element, setClass, setText } from "./dom.js";
import { formatCount, formatNumber } from "./format.js";
import { copyText } from "./notices.js";
import { bytesOf } from "./recorded_answers.js";
import { VirtualList } from "./virtual_list.js";

const WIDTH_FOR_SIXTEEN = 512; // pixels
const MOST_COPIED = 1e6;

export function showBytes(panel, detail) {
  const bytes = detail.bytes || (detail.bytes = bytesOf(detail));
  const chunks = detail.chunks || [];
  const begins = new Set(chunks.map(([start]) => start).filter((start) => start >= detail.start && start < detail.end));
  const summary = detail.chunks === null
    ? "chunks unknown, because the body was compressed"
    : `${formatCount(chunks.length, "chunk")}: ${chunks.slice(0, 4).map(([start, end, time]) => `${formatNumber(start)}–${formatNumber(end)} at ${clockTime(time)}`).join(", ")}${chunks.length > 4 ? ", …" : ""}`;
  const tools = element("div", { class: "tools" });
  const copyHex = () => copyText(Array.from(bytes.subarray(0, MOST_COPIED), hex).join(" "), "the bytes in hexadecimal");
  tools.append(element("button", { type: "button", class: "plain", text: "Copy raw", title: "Copy the bytes as they are", onclick: () => copyRaw(bytes) }));
  tools.append(element("button", { type: "button", class: "plain", text: "Copy as hex", onclick: copyHex }));
  tools.append(element("span", { class: "dim", text: `bytes ${formatNumber(detail.start)}–${formatNumber(detail.end)} of the body · ${summary}` }));
  const host = element("div", { id: "hex", class: "pane" });
  panel.append(tools, host);
  let across = 0;
  const draw = () => {
    const now = host.clientWidth < WIDTH_FOR_SIXTEEN ? 8 : 16;
    if (now === across) return;
    across = now;
    host.replaceChildren();
    host.classList.toggle("narrow", now === 8);
    showLines(host, bytes, across, detail.start, begins);
  };
  draw();
  new ResizeObserver(draw).observe(host);
}

function showLines(host, bytes, across, start, begins) {
  const list = new VirtualList(host, {
    label: "Bytes", height: 20,
    columns: [["offset", "offset"], ["hex", "bytes"], ["text", "text"]],
    fill: (cells, line, node) => fillBytes(cells, line, node, bytes, across, start, begins),
    chosen: (index) => list.select(index),
  });
  list.show(Array.from({ length: Math.ceil(bytes.length / across) }, (_, at) => at), -1);
}

function fillBytes(cells, line, node, bytes, across, start, begins) {
  setClass(node, "row");
  if (node.line === line) return;
  node.line = line;
  setText(cells.offset, String(start + line * across));
  if (!cells.hex.firstChild) for (const cell of [cells.hex, cells.text]) cell.append(...Array.from({ length: across }, () => element("span")));
  for (let at = 0; at < across; at += 1) {
    const place = line * across + at;
    const byte = bytes[place];
    const name = `${byte === undefined ? "none" : byteClass(byte)}${begins.has(start + place) && place ? " begins" : ""}`;
    const [hexCell, textCell] = [cells.hex.children[at], cells.text.children[at]];
    setText(hexCell, byte === undefined ? "  " : hex(byte));
    setText(textCell, byte === undefined ? " " : character(byte));
    setClass(hexCell, name);
    setClass(textCell, name);
  }
}

function hex(byte) {
  return byte.toString(16).padStart(2, "0");
}

function character(byte) {
  if (byte === 0x20) return "\u00a0";
  if (byte === 0x0a) return "↵";
  return byte > 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·";
}

function byteClass(byte) {
  return byte >= 0x80 ? "high" : byte < 0x20 || byte === 0x7f ? "control" : "byte";
}
