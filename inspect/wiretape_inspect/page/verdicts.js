// The rules of a report: what the recording shows about each.

const VERDICTS = ["fail", "inconclusive", "pass", "not-exercised"];
const VERDICT_SIGNS = { fail: "✕", inconclusive: "?", pass: "✓", "not-exercised": "–" };

class VerdictList {
  constructor(host, app) {
    this.app = app;
    this.host = make("div", { id: "verdicts", class: "pane" });
    host.append(this.host);
    this.list = new VirtualList(this.host, {
      label: "Rules", height: ROW_HEIGHT,
      columns: [["verdict", "verdict"], ["rule", "rule"], ["grade", "severity"], ["times", "came up"], ["found", "findings"]].map(([name, label]) => ({ name, label })),
      fill: (cells, rule, node) => this.fillRow(cells, rule, node),
      chosen: (index) => this.look(index),
    });
    const rules = Object.values(app.recording.rules).filter((rule) => rule.selected);
    this.rules = rules.sort((a, b) => VERDICTS.indexOf(a.verdict) - VERDICTS.indexOf(b.verdict) || (a.code < b.code ? -1 : 1));
  }

  show() {
    this.list.show(this.rules, -1);
    this.look(Math.max(this.chosen || 0, 0));
  }

  look(index) {
    this.chosen = index;
    this.list.select(index);
    const rule = this.rules[index];
    if (rule) this.app.detail.showRule(rule);
  }

  fillRow(cells, rule, node) {
    setClass(node, `row ${VERDICTS.includes(rule.verdict) ? rule.verdict : "fail"}`);
    setText(cells.verdict, `${VERDICT_SIGNS[rule.verdict] || ""} ${verdictSaid(rule)}`);
    setText(cells.rule, `${printable(rule.code)} ${printable(rule.name)}`);
    setText(cells.grade, printable(rule.severity));
    setText(cells.times, rule.exercised ? grouped(rule.exercised) : "");
    setText(cells.found, foundSaid(rule));
  }
}

function verdictSaid(rule) {
  return printable(rule.verdict).replace("-", " ");
}

function foundSaid(rule) {
  if (!rule.findings) return "";
  return rule.suppressed ? `${grouped(rule.findings)}, ${grouped(rule.suppressed)} in the baseline` : grouped(rule.findings);
}

/** A rule with what it says, and what came of it. */
function ruleCard(rule, app) {
  const box = make("article", { class: "rule-card" });
  box.append(make("h3", null, `${printable(rule.code)} `, make("span", { class: "dim", text: printable(rule.name) })));
  box.append(make("p", { class: "message", text: inOneLine(rule.about || "") }));
  const pages = /^https?:\/\//.test(rule.url || "") ? make("a", { href: rule.url, rel: "noreferrer", text: printable(rule.url) }) : null;
  box.append(factList([
    ["verdict", make("span", { class: `verdict ${VERDICTS.includes(rule.verdict) ? rule.verdict : "fail"}`, text: `${VERDICT_SIGNS[rule.verdict] || ""} ${verdictSaid(rule)}` })],
    ["reasons", rule.inconclusive_reasons.length ? rule.inconclusive_reasons.map((one) => `${printable(one.reason)} (${counted(one.count, "time")})`).join("; ") : null],
    ["came up", rule.exercised ? counted(rule.exercised, "time") : "never: the recording proves nothing about it"],
    ["findings", rule.findings ? foundSaid(rule) : null],
    ["severity", severityMark(rule.severity)],
    ["side", printable(rule.side)],
    ["clause", `${printable(rule.clause)} (${printable(rule.basis)})`],
    ["explained by", make("code", { text: `wiretape rule ${printable(rule.code)}` })],
    ["documentation", pages],
  ]));
  const found = app.recording.findings.filter((one) => one.code === rule.code);
  if (!found.length) return box;
  const list = make("ul", { class: "found-list" });
  for (const one of found.slice(0, 100)) {
    const place = one.event === null ? `exchange ${one.exchange}` : `${one.exchange}:${one.event}`;
    const go = make("button", { type: "button", class: "found-item", onclick: () => app.goFinding(one) }, place, make("span", { class: "found-words", text: printable(one.message) }));
    list.append(make("li", null, go));
  }
  box.append(make("h3", { text: "Where" }), list);
  return box;
}
