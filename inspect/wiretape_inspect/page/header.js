// The header: the recording, the exchange and how it went, and buttons that lead elsewhere.

import { byId, element, setText } from "./dom.js";
import { connectionPair, endingClass, newestStream, pathOf, shortPath, statusClass } from "./exchange_heads.js";
import { abbreviateId, countSeverities, formatCount, formatDuration, formatSeverities, formatSize, printable, shorten } from "./format.js";
import { severityCounts } from "./report_summary.js";

const BACK = "Back to the timeline";
const WIDE = 1600; // pixels of a page with room for whole paths

export function showHeader(app) {
  const { head, timeline, recording, view } = app;
  setText(byId("file"), printable(recording.file));
  byId("file").title = `${printable(recording.tool)} · ${printable(recording.upstream)} · ${printable(recording.started)}`;
  document.title = `${head ? `#${head.exchange} · ` : ""}${printable(recording.file)} · wiretape`;
  showFindingCounts(app);
  showRecordingCount(app);
  showNewerStream(app);
  showCompareButton(app);
  showDiffButton(app);
  byId("exchange").hidden = !head;
  if (view.findings) {
    byId("exchange").replaceChildren(element("span", { class: "number", text: "All findings" }));
    setText(byId("facts"), "");
  } else if (!head) {
    setText(byId("facts"), `This recording has no exchanges${recording.live ? " yet" : ""}.`);
  } else showExchange(head, timeline);
}

function showExchange(head, timeline) {
  byId("exchange").replaceChildren(
    element("span", { class: "number", text: `#${head.exchange}` }), " ",
    element("span", { class: "path", text: shorten(innerWidth < WIDE ? `${head.method} ${shortPath(head)}` : pathOf(head).replace(/\?.*/s, ""), 300), title: printable(pathOf(head)) }),
  );
  const end = timeline?.rows.findLast((row) => row.row === "end");
  byId("facts").replaceChildren(
    element("span", { class: statusClass(head), text: head.status === null ? "no response" : String(head.status) }),
    " · ",
    element("span", { class: endingClass(head), text: printable((end || head).ending_label) }),
    ` · ${exchangeFacts(head, timeline)}`,
  );
  if (head.cursor !== null) byId("facts").append(element("span", { class: "dim", text: ` · after ${abbreviateId(shorten(head.cursor, 200))}` }));
}

function exchangeFacts(head, timeline) {
  const parts = [];
  if (timeline && head.stream) parts.push(formatCount(timeline.events, "event"));
  if (head.lost_bytes) parts.push(`${formatSize(head.lost_bytes)} not recorded`);
  if (head.ended_ns !== null) parts.push(formatDuration(head.ended_ns - head.time_ns));
  return parts.join(" · ");
}

function showFindingCounts({ recording, view }) {
  const button = byId("findings-button");
  const counts = recording.report ? recording.report.severities : countSeverities(recording.findings);
  const isBack = view.findings && !recording.report;
  button.replaceChildren(...(isBack ? [BACK] : ["Findings", ...severityCounts(counts)]));
  button.setAttribute("aria-label", isBack ? BACK : `All findings: ${formatSeverities(counts) || "none"}`);
  button.setAttribute("aria-pressed", view.findings);
}

function showRecordingCount({ report, recordingNumber }) {
  if (!report || report.files.length < 2) return;
  byId("files").hidden = false;
  byId("files").replaceChildren(`${recordingNumber} of ${report.files.length} recordings `, element("span", { class: "caret", text: "▾", "aria-hidden": "true" }));
}

/** While a recording is made, lead to a stream that is newer than the one shown. */
function showNewerStream({ recording, live, head }) {
  const newest = newestStream(recording.exchanges);
  const button = byId("newer");
  button.hidden = !live.isOn || !head || !newest || newest.exchange <= head.exchange;
  if (!button.hidden) setText(button, `Newer stream: #${newest.exchange}`);
}

function showCompareButton({ recording, view, head }) {
  const pair = connectionPair(recording.exchanges, head);
  const button = byId("compare");
  button.hidden = !pair || view.findings || view.diff;
  if (button.hidden) return;
  const isOpen = view.resume !== null;
  const other = pair.find((one) => one.exchange !== head.exchange);
  setText(button, isOpen ? BACK : `Compare #${other.exchange}`);
  button.setAttribute("aria-pressed", isOpen);
  button.title = "Compare both connections (c)";
}

function showDiffButton({ recording, view }) {
  const button = byId("diff-button");
  button.hidden = !recording.other;
  setText(button, view.diff ? BACK : `Compare with ${shorten(recording.other || "", 40)}`);
  button.setAttribute("aria-pressed", view.diff);
}
