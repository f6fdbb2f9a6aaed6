// The dialogs that choose an exchange, and a recording of a report.

import { closeDialog, openDialog } from "./dialogs.js";
import { element, setClass, setText } from "./dom.js";
import { pathOf, statusClass } from "./exchange_heads.js";
import { formatDuration, formatSize, printable, shorten } from "./format.js";
import { severityCounts } from "./report_summary.js";
import { fillMarks } from "./timeline_row.js";
import { VirtualList } from "./virtual_list.js";

const LIST_KEYS = ["ArrowDown", "ArrowUp", "PageDown", "PageUp"];

export function pickExchange(app) {
  const { recording, view, navigation } = app;
  const input = element("input", { type: "search", id: "pick-filter", placeholder: "method, path, session, status, ending", spellcheck: false, autocomplete: "off" });
  const host = element("div", { id: "exchanges", class: "pane" });
  const label = element("label", { htmlFor: "pick-filter", class: "quiet", text: "Find an exchange" });
  openDialog("Exchanges", element("div", { class: "pick-field" }, label, input), host);
  let list = null;
  const choose = (index) => {
    if (!list.items[index]) return;
    closeDialog();
    navigation.goExchange(list.items[index].exchange);
  };
  list = new VirtualList(host, {
    label: "Exchanges", role: "listbox", height: 30,
    columns: ["n", "status", "path", "about", "marks"].map((name) => ({ name })),
    fill: (cells, head, node) => fillExchange(recording, cells, head, node),
    chosen: (index, _item, event) => (event.type === "click" ? choose(index) : list.select(index)),
  });
  const find = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter((word) => word);
    const found = recording.exchanges.filter((head) => words.every((word) => searchText(head).includes(word)));
    list.show(found, -1);
    list.select(Math.max(found.findIndex((head) => head.exchange === view.x), 0), { middle: true });
  };
  input.addEventListener("input", find);
  input.addEventListener("keydown", (event) => {
    if (LIST_KEYS.includes(event.key)) list.key(event);
    if (event.key === "Enter") { event.preventDefault(); choose(list.selected); }
  });
  list.root.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(list.selected); });
  find();
  input.focus();
}

function searchText(head) {
  const parts = [`#${head.exchange}`, pathOf(head), head.session_id || "", head.status, head.ending_label, head.stream ? "stream" : ""];
  return parts.join(" ").toLowerCase();
}

function fillExchange(recording, cells, head, node) {
  setClass(node, `row${head.stream ? " stream" : ""}`);
  setText(cells.n, `#${head.exchange}`);
  setText(cells.status, head.status === null ? "---" : String(head.status));
  setClass(cells.status, statusClass(head));
  setText(cells.path, shorten(pathOf(head), 300));
  const parts = [head.stream ? "stream" : null, printable(head.ending_label), formatSize(head.response_bytes)];
  if (head.ended_ns !== null) parts.push(formatDuration(head.ended_ns - head.time_ns));
  setText(cells.about, parts.filter((part) => part).join(" · "));
  fillMarks(cells.marks, recording.findings.filter((found) => found.exchange === head.exchange).slice(0, 99));
}

/** Choose a recording of a report: `report` is the index of its recordings, `current` the number of the one shown. */
export function pickRecording(report, current) {
  if (!report || report.files.length < 2) return;
  const host = element("div", { id: "recordings", class: "pane" });
  openDialog("Recordings", host);
  const choose = (index) => {
    closeDialog();
    if (index + 1 !== current) location.hash = `${index ? `f=${index + 1}&` : ""}findings=1`;
  };
  const list = new VirtualList(host, {
    label: "Recordings", role: "listbox", height: 46,
    columns: ["n", "path", "marks", "about"].map((name) => ({ name })),
    fill: (cells, file) => {
      setText(cells.n, String(report.files.indexOf(file) + 1));
      setText(cells.path, shorten(file.file, 300));
      cells.marks.replaceChildren(...severityCounts(file.severities));
      setText(cells.about, printable(file.summary));
    },
    chosen: (index, _file, event) => (event.type === "click" ? choose(index) : list.select(index)),
  });
  list.root.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(list.selected); });
  list.show(report.files, -1);
  list.select(current - 1, { middle: true });
  list.root.focus();
}
