// What a report adds to the page: the summary above the findings, and the counts of findings.

import { byId, element } from "./dom.js";
import { SEVERITIES, SEVERITY_SIGNS, formatCount, formatNumber, printable } from "./format.js";

/** The sign of each severity with its number of findings; 0 if there are none. */
export function severityCounts(counts) {
  const sign = (one) => element("span", { class: `sign ${one}`, text: SEVERITY_SIGNS[one] });
  const found = SEVERITIES.filter((one) => counts[one]).flatMap((one) => [" ", sign(one), ` ${formatNumber(counts[one])}`]);
  return found.length ? found : [" 0"];
}

function totalOf(counts) {
  return SEVERITIES.reduce((sum, one) => sum + counts[one], 0);
}

/** The summary of a report: its result, what it omits, and the tabs for findings and rules. */
export function reportSummary(app) {
  const { report } = app.recording;
  const box = element("div", { class: "report-summary" });
  const tab = (text, verdicts) => {
    const go = () => { app.go({ verdicts }, true); app.focusList(); };
    return element("button", { type: "button", class: "toggle", id: verdicts ? "show-rules" : "show-findings", text, onclick: go });
  };
  const findings = tab(`Findings ${formatNumber(totalOf(report.severities))}`, false);
  box.append(element("div", { class: "report-tabs" }, findings, tab(`Rules ${formatNumber(report.selected)}`, true)));
  if (report.notice) box.append(element("p", { class: "report-part", text: printable(report.notice) }));
  box.append(element("p", { class: "report-text", text: printable(report.summary) }));
  for (const line of report.inconclusive_reasons) box.append(element("p", { class: "dim", text: printable(line) }));
  const more = Object.entries(report.more).map(([code, number]) => `${formatNumber(number)} more of ${printable(code)}`);
  if (more.length) box.append(element("p", { class: "dim", text: `Not shown: ${more.join(", ")}.` }));
  if (report.radius !== null) box.append(element("p", { class: "report-part", text: omissionText(report) }));
  return box;
}

function omissionText({ events, radius }) {
  return `This recording is large (${formatCount(events, "event")}), so this file contains only the exchanges with findings and, `
    + `in their streams, up to ${formatNumber(radius)} events before and after each finding. Rows mark what is omitted; `
    + "`wiretape debug` shows everything.";
}

export function showReportTabs(verdicts) {
  byId("show-findings").setAttribute("aria-pressed", !verdicts);
  byId("show-rules").setAttribute("aria-pressed", verdicts);
}

/** The number of findings or rules in the list that is shown. */
export function listCount({ recording, view }) {
  const { report, findings } = recording;
  if (!report) return formatCount(findings.length, "finding");
  if (view.verdicts) return formatCount(report.selected, "rule");
  const total = totalOf(report.severities);
  return total > findings.length ? `${formatNumber(findings.length)} of ${formatCount(total, "finding")}` : formatCount(total, "finding");
}
