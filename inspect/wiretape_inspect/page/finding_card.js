// One finding in full, and short lists of findings.

import { element, factList, setProperties, severityMark } from "./dom.js";
import { SEVERITY_SIGNS, formatNumber, formatTime, printable, printableLine, shorten, shortenNumber } from "./format.js";

const MOST_CARDS = 200;

/** Show findings in a panel, or say that there are none. */
export function showFindings(panel, findings, recording, none) {
  if (!findings.length) panel.append(element("p", { class: "empty", text: none }));
  panel.append(...findings.slice(0, MOST_CARDS).map((one) => findingCard(one, recording)));
}

/** A finding with the expected and the actual value, its evidence, and the clause that it is about. */
export function findingCard(finding, recording) {
  const found = reportedFinding(finding, recording);
  const rule = recording.rules[found.code];
  const card = element("article", { class: `finding-card ${SEVERITY_SIGNS[found.severity] ? found.severity : "error"}` });
  const name = element("span", { class: "dim", text: rule ? printable(rule.name) : "" });
  card.append(element("h3", null, severityMark(found.severity), ` ${printable(found.code)} `, name));
  if (found.expected && found.actual) {
    const values = factList([["expected", printable(found.expected)], ["got", printable(found.actual)]]);
    card.append(setProperties(values, { class: "facts-list both" }));
  } else card.append(element("p", { class: "message", text: printable(found.message) }));
  const evidence = evidenceBox(found);
  if (evidence) card.append(evidence);
  card.append(factList([
    ["request", found.request ? element("code", { text: shorten(found.request, 300) }) : null],
    ["clause", rule ? `${printable(rule.clause)}${rule.basis ? ` (${printable(rule.basis)})` : ""}` : null],
    ["about", rule && rule.about ? printableLine(rule.about) : null],
    ["side", printable(found.side)],
    ["sequence", found.sequence === null ? null : shortenNumber(found.sequence)],
    ["bytes", byteRange(found)],
    ["time", found.see ? formatTime(found.time_ns) : null],
    ["show", found.see ? element("code", { text: printable(found.see) }) : null],
    ["explain", element("code", { text: `wiretape rule ${printable(found.code)}` })],
  ]));
  return card;
}

function byteRange(found) {
  if (found.byte_offset === null) return null;
  const start = formatNumber(found.byte_offset);
  return found.end ? `${start}–${formatNumber(found.end)}` : `from ${start}`;
}

/** The finding of a report that equals the finding of a row, which lacks the evidence. */
function reportedFinding(found, recording) {
  if (found.see || !recording.report) return found;
  const isSame = (one) => one.code === found.code && one.exchange === found.exchange && one.event === found.event && one.message === found.message;
  return recording.findings.find(isSame) || found;
}

/** The bytes on the wire, as the report shows them in a terminal. */
function evidenceBox(found) {
  const lines = [...(found.request_headers || []).map((line) => [">", line]), ...(found.evidence || [])];
  if (!lines.length) return null;
  const box = element("div", { class: "evidence" });
  for (const [margin, line] of lines) {
    box.append(element("span", { class: "margin", text: printable(margin) }), element("code", { text: printable(line) }));
  }
  return box;
}

/** A list of findings in one line each; `place` returns where a finding is, and `go` goes there. */
export function findingList(findings, place, go) {
  const list = element("ul", { class: "found-list" });
  for (const one of findings) {
    const where = element("span", { class: "dim", text: place(one) });
    const text = element("span", { class: "found-words", text: `${printable(one.code)}: ${printable(one.message)}` });
    const button = { type: "button", class: "found-item", onclick: () => go(one) };
    list.append(element("li", null, element("button", button, severityMark(one.severity), where, text)));
  }
  return list;
}
