// The bytes of an event, in hexadecimal and as text, with their places in the body and where chunks began.

const HEX_WIDE = 512; // pixels that sixteen bytes a line need

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
  let across = 0;
  const draw = () => {
    const now = host.clientWidth < HEX_WIDE ? 8 : 16;
    if (now === across) return;
    across = now;
    host.replaceChildren();
    host.classList.toggle("narrow", now === 8);
    showLines(host, bytes, across, detail.start, begins);
  };
  draw();
  new ResizeObserver(draw).observe(host);
}

/** The bytes, so many `across` a line. */
function showLines(host, bytes, across, start, begins) {
  const list = new VirtualList(host, {
    label: "Bytes", height: 20,
    columns: [{ name: "offset", label: "offset" }, { name: "hex", label: "bytes" }, { name: "text", label: "text" }],
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
  if (!cells.hex.firstChild) fillBytesSpans(cells, across);
  for (let at = 0; at < across; at += 1) {
    const place = line * across + at;
    const byte = bytes[place];
    const name = `${byte === undefined ? "none" : byteClass(byte)}${begins.has(start + place) && place ? " begins" : ""}`;
    const [hex, text] = [cells.hex.children[at], cells.text.children[at]];
    setText(hex, byte === undefined ? "  " : byte.toString(16).padStart(2, "0"));
    setText(text, byte === undefined ? " " : byte > 0x20 && byte < 0x7f ? String.fromCharCode(byte) : byte === 0x20 ? "\u00a0" : byte === 0x0a ? "↵" : "·");
    setClass(hex, name);
    setClass(text, name);
  }
}

function fillBytesSpans(cells, across) {
  for (const cell of [cells.hex, cells.text]) {
    for (let at = 0; at < across; at += 1) cell.append(make("span"));
  }
}

function byteClass(byte) {
  return byte >= 0x80 ? "high" : byte < 0x20 || byte === 0x7f ? "control" : "byte";
}
