// The keys of the page.

import { TIME_MODES } from "./clock.js";
import { byId } from "./dom.js";
import { showGoToDialog } from "./go_to_dialog.js";
import { copyText } from "./notices.js";
import { pickRecording } from "./recording_picker.js";
import { TABS } from "./url_state.js";

const INPUTS = /^(INPUT|TEXTAREA|SELECT)$/;

export function watchKeys(app) {
  const actions = keyActions(app);
  addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || byId("dialog").open) return;
    if (event.key === "Escape") { pressEscape(app, event); return; }
    if (INPUTS.test(event.target.tagName)) return;
    if (event.key.startsWith("Arrow") && !event.target.closest(".list")) return;
    // Enter and Space press a focused button.
    if ([" ", "Enter"].includes(event.key) && event.target.closest("button, summary, [role=separator], a")) return;
    const action = actions[event.key] || (app.playhead && app.playhead.keys()[event.key]);
    if (!action) return;
    event.preventDefault();
    action();
  });
}

function keyActions(app) {
  const { navigation } = app;
  const isDurable = (item) => item.kind === "row" && item.row.kind === "durable";
  return {
    j: () => navigation.step(1),
    k: () => navigation.step(-1),
    J: () => navigation.step(1, isDurable, "durable event"),
    K: () => navigation.step(-1, isDurable, "durable event"),
    n: () => navigation.stepFinding(1),
    p: () => navigation.stepFinding(-1),
    Enter: () => navigation.toggle(),
    ArrowRight: () => navigation.toggle(true),
    ArrowLeft: () => navigation.toggle(false),
    d: () => app.go({ deltas: !app.view.deltas, open: app.view.open.filter((key) => !key.startsWith("e")) }),
    t: () => app.go({ tools: !app.view.tools }),
    g: () => showGoToDialog(app),
    "/": () => byId("filter").select(),
    "?": () => app.showHelp(),
    r: () => app.go({ tab: app.view.tab === "bytes" ? "payload" : "bytes" }),
    ...Object.fromEntries(TABS.map((tab, at) => [String(at + 1), () => app.go({ tab })])),
    y: () => copyText(location.href, "a link to this view"),
    Y: () => navigation.copyCommand(),
    x: () => app.sidebar.focus(),
    e: () => app.showSidebar(byId("sidebar").hidden),
    "[": () => navigation.stepExchange(-1),
    "]": () => navigation.stepExchange(1),
    l: () => navigation.goLongestSilence(),
    o: () => pickRecording(app.report, app.recordingNumber),
    z: () => app.strip.zoomToExchange(),
    Z: () => app.strip.axis.fit(),
    "+": () => app.strip.zoomBy(0.5),
    "-": () => app.strip.zoomBy(2),
    T: () => { const modes = Object.keys(TIME_MODES); app.go({ time: modes[(modes.indexOf(app.view.time) + 1) % modes.length] }); },
    c: () => navigation.compare(),
    C: () => navigation.diff(),
    f: () => app.go({ findings: !app.view.findings, diff: false, resume: null }, true),
  };
}

/** Escape undoes one thing at a time. */
function pressEscape(app, event) {
  const { view } = app;
  const filter = byId("filter");
  event.preventDefault();
  if (document.activeElement === filter && !filter.value) app.focusList();
  else if (view.findings || view.diff || view.resume !== null) app.navigation.leavePane();
  else if (view.q || filter.value) { filter.value = ""; app.go({ q: "" }); }
  else app.focusList();
}
