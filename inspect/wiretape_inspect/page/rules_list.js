// The rules of a report with their verdicts.

import { element, factList, setClass, setText, severityMark } from "./dom.js";
import { explanationList, findingList } from "./finding_card.js";
import { formatCount, formatNumber, printable } from "./format.js";
import { ROW_HEIGHT } from "./timeline_row.js";
import { VirtualList } from "./virtual_list.js";

const VERDICTS = ["fail", "inconclusive", "pass", "not-exercised"];
const VERDICT_SIGNS = { fail: "✕", inconclusive: "?", pass: "✓", "not-exercised": "–" };
const COLUMNS = [["verdict", "verdict"], ["rule", "rule"], ["grade", "severity"], ["times", "exercised"], ["found", "findings"]];
const MOST_FINDINGS = 100;

export class RulesList {
  constructor(host, app) {
    this.app = app;
    this.selected = 0;
    this.host = element("div", { id: "verdicts", class: "pane" });
    host.append(this.host);
    this.list = new VirtualList(this.host, {
      label: "Rules", height: ROW_HEIGHT, columns: COLUMNS,
      fill: (cells, rule, node) => fillRow(cells, rule, node),
      chosen: (index) => this.preview(index),
    });
    const rules = Object.values(app.recording.rules).filter((rule) => rule.selected);
    this.rules = rules.sort((a, b) => VERDICTS.indexOf(a.verdict) - VERDICTS.indexOf(b.verdict) || (a.code < b.code ? -1 : 1));
  }

  show() {
    this.list.show(this.rules, -1);
    this.preview(this.selected);
  }

  preview(index) {
    this.selected = index;
    this.list.select(index);
    if (this.rules[index]) this.app.detail.showContent((panel) => panel.append(ruleCard(this.rules[index], this.app)));
  }
}

function fillRow(cells, rule, node) {
  setClass(node, `row ${verdictClass(rule)}`);
  setText(cells.verdict, verdictText(rule));
  setText(cells.rule, `${printable(rule.code)} ${printable(rule.name)}`);
  setText(cells.grade, printable(rule.severity));
  setText(cells.times, rule.exercised ? formatNumber(rule.exercised) : "");
  setText(cells.found, findingsText(rule));
}

function verdictClass({ verdict }) {
  return VERDICTS.includes(verdict) ? verdict : "fail";
}

function verdictText({ verdict }) {
  return `${VERDICT_SIGNS[verdict] || ""} ${printable(verdict).replace("-", " ")}`;
}

function findingsText({ findings, suppressed }) {
  if (!findings) return "";
  return suppressed ? `${formatNumber(findings)} (${formatNumber(suppressed)} in baseline)` : formatNumber(findings);
}

/** A rule with its verdict and its findings. */
function ruleCard(rule, { recording, navigation }) {
  const box = element("article", { class: "rule-card" });
  box.append(element("h3", null, `${printable(rule.code)} `, element("span", { class: "dim", text: printable(rule.name) })));
  box.append(explanationList(rule));
  const url = /^https?:\/\//.test(rule.url || "") ? rule.url : null;
  box.append(factList([
    ["verdict", element("span", { class: `verdict ${verdictClass(rule)}`, text: verdictText(rule) })],
    ["reasons", rule.inconclusive_reasons.map((one) => `${printable(one.reason)} (${formatCount(one.count, "time")})`).join("; ")],
    ["exercised", rule.exercised ? formatCount(rule.exercised, "time") : "never: the recording contains no case of it"],
    ["findings", findingsText(rule)],
    ["severity", severityMark(rule.severity)],
    ["side", printable(rule.side)],
    ["explain", rule.explain && element("code", { text: printable(rule.explain) })],
    ["documentation", url && element("a", { href: url, rel: "noreferrer", text: printable(url) })],
  ]));
  const found = recording.findings.filter((one) => one.code === rule.code).slice(0, MOST_FINDINGS);
  if (!found.length) return box;
  const place = (one) => (one.event === null ? ` exchange ${one.exchange}` : ` ${one.exchange}:${one.event}`);
  box.append(element("h3", { text: "Findings" }), findingList(found, place, (one) => navigation.goFinding(one)));
  return box;
}
