// The bytes of an event, in hexadecimal and as text, with their places in the body and where chunks began.

const BYTES_A_LINE = 16;

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64);
  const found = new Uint8Array(text.length);
  for (let at = 0; at < text.length; at += 1) found[at] = text.charCodeAt(at);
  return found;
}

function showBytes(panel, detail) {
  const bytes = detail.bytes || (detail.bytes = bytesOf(detail.base64));
  const chunks = detail.chunks || [];
  const begins = new Set(chunks.map(([start]) => start).filter((start) => start >= detail.start && start < detail.end));
  const said = detail.chunks === null
    ? "the body was compressed, so where chunks began says nothing about these bytes"
    : `${counted(chunks.length, "chunk")}: ${chunks.slice(0, 4).map(([start, end, time]) => `${grouped(start)}–${grouped(end)} at ${moment(time)}`).join(", ")}${chunks.length > 4 ? ", …" : ""}`;
  const tools = make("div", { class: "tools" });
  const save = () => copy(Array.from(bytes.subarray(0, 1e6), (one) => one.toString(16).padStart(2, "0")).join(" "), "the bytes in hexadecimal");
  tools.append(make("button", { type: "button", class: "plain", text: "Copy as hex", onclick: save }));
  tools.append(make("span", { class: "dim", text: `bytes ${grouped(detail.start)}–${grouped(detail.end)} of the body · ${said}` }));
  const host = make("div", { id: "hex", class: "pane" });
  panel.append(tools, host);
  const list = new VirtualList(host, {
    label: "Bytes", height: 20,
    columns: [{ name: "offset", label: "offset" }, { name: "hex", label: "bytes" }, { name: "text", label: "text" }],
    fill: (cells, line, node) => fillBytes(cells, line, node, bytes, detail.start, begins),
    chosen: (index) => list.select(index),
  });
  list.show(Array.from({ length: Math.ceil(bytes.length / BYTES_A_LINE) }, (_, at) => at), -1);
}

function fillBytes(cells, line, node, bytes, start, begins) {
  setClass(node, "row");
  if (node.line === line) return;
  node.line = line;
  setText(cells.offset, String(start + line * BYTES_A_LINE));
  if (!cells.hex.firstChild) fillBytesSpans(cells);
  for (let at = 0; at < BYTES_A_LINE; at += 1) {
    const place = line * BYTES_A_LINE + at;
    const byte = bytes[place];
    const name = `${byte === undefined ? "none" : byteClass(byte)}${begins.has(start + place) && place ? " begins" : ""}`;
    const [hex, text] = [cells.hex.children[at], cells.text.children[at]];
    setText(hex, byte === undefined ? "  " : byte.toString(16).padStart(2, "0"));
    setText(text, byte === undefined ? " " : byte > 0x20 && byte < 0x7f ? String.fromCharCode(byte) : byte === 0x20 ? "\u00a0" : byte === 0x0a ? "↵" : "·");
    setClass(hex, name);
    setClass(text, name);
  }
}

function fillBytesSpans(cells) {
  for (const cell of [cells.hex, cells.text]) {
    for (let at = 0; at < BYTES_A_LINE; at += 1) cell.append(make("span"));
  }
}

function byteClass(byte) {
  return byte >= 0x80 ? "high" : byte < 0x20 || byte === 0x7f ? "control" : "byte";
}
