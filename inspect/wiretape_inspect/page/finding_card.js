// One finding in full, and short lists of findings.

import { clockTime } from "./clock.js";
import { codeText, element, factList, setProperties, severityMark } from "./dom.js";
import { SEVERITY_SIGNS, formatNumber, isSameFinding, printable, printableLine, shorten, shortenNumber } from "./format.js";

const MOST_CARDS = 200;

/** Show findings in a panel, or say that there are none. */
export function showFindings(panel, findings, app, none) {
  if (!findings.length) panel.append(element("p", { class: "empty" }, ...codeText(none)));
  panel.append(...findings.slice(0, MOST_CARDS).map((one) => findingCard(one, app)));
}

/** A finding with the expected and the actual value, its evidence, the clause, why it matters and the usual fix. */
export function findingCard(finding, app) {
  const card = element("article", { class: `finding-card ${SEVERITY_SIGNS[finding.severity] ? finding.severity : "error"}` });
  fillCard(card, finding, app);
  loadEvidence(finding, app).then((found) => { if (found) fillCard(card, found, app); });
  return card;
}

/** A finding with its evidence: a report and an exported page contain it, a server returns it. */
async function loadEvidence(finding, { recording, source }) {
  const isSame = (one) => one.exchange === finding.exchange && isSameFinding(one, finding);
  if (finding.evidence) return null;
  const known = recording.findings.find((one) => one.evidence && isSame(one));
  if (known || !source.findings) return known || null;
  return (await source.findings(finding.exchange, finding.event).catch(() => [])).find(isSame) || null;
}

function fillCard(card, found, app) {
  const rule = app.recording.rules[found.code];
  const name = element("span", { class: "dim", text: rule ? printable(rule.name) : "" });
  const box = (text) => element("span", null, ...linkedText(text, app));
  card.replaceChildren(element("h3", null, severityMark(found.severity), ` ${printable(found.code)} `, name));
  if (found.expected && found.actual) {
    const values = factList([["expected", box(found.expected)], ["got", box(found.actual)]]);
    card.append(setProperties(values, { class: "facts-list both" }));
  } else card.append(element("p", { class: "message" }, box(found.message)));
  const evidence = evidenceBox(found);
  if (evidence) card.append(evidence);
  if (rule) card.append(explanationList(rule));
  card.append(factList([
    ["request", found.request ? element("code", { text: shorten(found.request, 300) }) : null],
    ["side", printable(found.side)],
    ["sequence", found.sequence === null ? null : shortenNumber(found.sequence)],
    ["bytes", found.byte_offset === null ? null : found.end ? `${formatNumber(found.byte_offset)}–${formatNumber(found.end)}` : `from ${formatNumber(found.byte_offset)}`],
    ["time", clockTime(found.time_ns)],
    ["show", found.see ? element("code", { text: printable(found.see) }) : null],
    ["explain", rule && rule.explain && element("code", { text: printable(rule.explain) })],
  ]));
}

/** What explains a rule: the clause, what breaks it, why it matters, and the usual fix. */
export function explanationList(rule) {
  const line = (text) => (text ? textBox(printableLine(text)) : null);
  const list = factList([
    ["clause", textBox(`${rule.clause}${rule.basis ? ` (${rule.basis})` : ""}`)],
    ["rule", line(rule.about)],
    ["why", line(rule.why)],
    ["usual fix", line(rule.fix)],
  ]);
  return setProperties(list, { class: "facts-list explanation" });
}

/** A text whose exchanges are links. */
function linkedText(text, { recording, navigation }) {
  const link = (name) => {
    const number = Number(name.replace(/\D/g, ""));
    const go = () => navigation.goExchange(number);
    return recording.exchanges.some((head) => head.exchange === number) ? element("button", { type: "button", class: "link", text: name, onclick: go }) : name;
  };
  const parts = (part) => (typeof part === "string" ? part.split(/(\bexchange \d+\b)/).map((each, at) => (at % 2 ? link(each) : each)) : [part]);
  return codeText(text).flatMap(parts);
}

function textBox(text) {
  return element("span", null, ...codeText(text));
}

/** The bytes on the wire, as the report shows them in a terminal; what the finding is about is underlined. */
function evidenceBox(found) {
  const headers = (found.request_headers || []).map((line) => [">", line]);
  const lines = [...headers, ...(found.evidence || [])];
  if (!lines.length) return null;
  const box = element("div", { class: "evidence" });
  const offending = found.offending ? { ...found.offending, line: found.offending.line + headers.length } : null;
  lines.forEach(([margin, line], at) => {
    const code = element("code");
    if (offending && offending.line === at) code.append(...underlined(line, offending));
    else code.textContent = printable(line);
    box.append(element("span", { class: "margin", text: printable(margin) }), code);
  });
  return box;
}

/** The parts of a line; positions count characters, as in Python. */
function underlined(line, { begin, end }) {
  const characters = Array.from(line);
  const part = (from, to) => printable(characters.slice(from, to).join(""));
  return [part(0, begin), element("mark", { class: "offending", text: part(begin, end) }), part(end)];
}

/** A list of findings in one line each; `place` returns where a finding is, and `go` goes there. */
export function findingList(findings, place, go) {
  const list = element("ul", { class: "found-list" });
  for (const one of findings) {
    const where = element("span", { class: "dim", text: place(one) });
    const text = element("span", { class: "found-words" }, `${printable(one.code)}: `, ...codeText(one.message));
    const button = { type: "button", class: "found-item", onclick: () => go(one) };
    list.append(element("li", null, element("button", button, severityMark(one.severity), where, " ", text)));
  }
  return list;
}
