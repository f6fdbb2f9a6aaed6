// What a report says beyond the findings: how it went as a whole, and the other recordings that it is about.

/** The numbers of each severity, the worst as a sign before them. */
function severityNumbers(numbers) {
  const severity = SEVERITIES.find((one) => numbers[one]);
  if (!severity) return [make("span", null, "no findings")];
  const sign = make("span", { class: `sign ${severity}`, text: SIGNS[severity], "aria-hidden": "true" });
  return [sign, ` ${severitiesSaid(numbers)}`];
}

/** Above the findings of a report: what it comes to, what it leaves out, and the way to the rules. */
function reportSummary(app) {
  const { report } = app.recording;
  const box = make("div", { class: "report-summary" });
  const tab = (name, verdicts) => {
    const go = () => { app.view.go({ verdicts }, true); app.focusList(); };
    return make("button", { type: "button", class: "toggle", id: verdicts ? "show-rules" : "show-findings", text: name, onclick: go });
  };
  const found = SEVERITIES.reduce((sum, one) => sum + report.severities[one], 0);
  box.append(make("div", { class: "report-tabs" }, tab(`Findings ${grouped(found)}`, false), tab(`Rules ${grouped(report.selected)}`, true)));
  box.append(make("p", { class: "report-said", text: printable(report.summary) }));
  for (const line of report.inconclusive_reasons) box.append(make("p", { class: "dim", text: printable(line) }));
  const more = Object.entries(report.more).map(([code, number]) => `${grouped(number)} more of ${printable(code)}`);
  if (more.length) box.append(make("p", { class: "dim", text: `Not shown: ${more.join(", ")}.` }));
  if (report.radius !== null) box.append(make("p", { class: "report-part", text: partSaid(report) }));
  return box;
}

function partSaid(report) {
  const near = `the exchanges with findings, and in their streams the events up to ${grouped(report.radius)} before and behind one`;
  return `A large recording (${counted(report.events, "event")}): this file holds ${near}. Rows say what is left out; \`wiretape debug\` shows all of it.`;
}

function showSummaryTabs(verdicts) {
  byId("show-findings").setAttribute("aria-pressed", !verdicts);
  byId("show-rules").setAttribute("aria-pressed", verdicts);
}

/** How many findings are listed; null where what is listed are the rules. */
function listedSaid(app) {
  const { report, findings } = app.recording;
  if (!report) return counted(findings.length, "finding");
  if (app.view.now.verdicts) return counted(report.selected, "rule");
  const whole = SEVERITIES.reduce((sum, one) => sum + report.severities[one], 0);
  return whole > findings.length ? `${grouped(findings.length)} of ${counted(whole, "finding")}` : counted(whole, "finding");
}

/** What a report says of a finding that stands beside a row. */
function reportOf(found, app) {
  if (found.see || !app.recording.report) return found;
  const same = (one) => one.code === found.code && one.exchange === found.exchange && one.event === found.event && one.message === found.message;
  return app.recording.findings.find(same) || found;
}

/** What was on the wire there, as the report in a terminal shows it. */
function evidenceBox(found) {
  const lines = [...(found.request_headers || []).map((line) => [">", line]), ...(found.evidence || [])];
  if (!lines.length) return null;
  const box = make("div", { class: "evidence" });
  for (const [margin, line] of lines) box.append(make("span", { class: "margin", text: printable(margin) }), make("code", { text: printable(line) }));
  return box;
}

function showFiles() {
  if (!REPORT || REPORT.files.length < 2) return;
  const button = byId("files");
  button.hidden = false;
  button.replaceChildren(`${FILE} of ${REPORT.files.length} recordings `, make("span", { class: "caret", text: "▾", "aria-hidden": "true" }));
}

/** The dialog with all recordings of a report. */
function pickFile() {
  if (!REPORT || REPORT.files.length < 2) return;
  const host = make("div", { id: "recordings", class: "pane" });
  openDialog("Recordings", host);
  const choose = (index) => {
    closeDialog();
    if (index + 1 !== FILE) location.hash = `${index ? `f=${index + 1}&` : ""}findings=1`;
  };
  const list = new VirtualList(host, {
    label: "Recordings", role: "listbox", height: 46,
    columns: ["n", "path", "marks", "about"].map((name) => ({ name })),
    fill: (cells, file) => {
      setText(cells.n, String(REPORT.files.indexOf(file) + 1));
      setText(cells.path, shown(file.file, 300));
      cells.marks.replaceChildren(...severityNumbers(file.severities));
      setText(cells.about, printable(file.summary));
    },
    chosen: (index, _file, event) => (event.type === "click" ? choose(index) : list.select(index)),
  });
  list.root.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(list.selected); });
  list.show(REPORT.files, -1);
  list.select(FILE - 1, { middle: true });
  list.root.focus();
}
