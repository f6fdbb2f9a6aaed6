// The keys of the page, and the help that lists them with the grammar of filters in examples.

import { TIME_MODES } from "./clock.js";
import { openDialog } from "./dialogs.js";
import { byId, element, factList } from "./dom.js";
import { showExportDialog } from "./export_dialog.js";
import { filterFields, suggestedFilters } from "./filter_grammar.js";
import { showGoToDialog } from "./go_to_dialog.js";
import { copyText } from "./notices.js";
import { pickRecording } from "./recording_picker.js";
import { TABS } from "./url_state.js";

const INPUTS = /^(INPUT|TEXTAREA|SELECT)$/;
const FILTERS = [
  ["type:*.started seq:40..60", "both must match; * is any text"],
  ["type:error,*.failed or rule:SSE*", "one of them must match"],
  ['"some text"', "this text, anywhere in the data"],
];

export function watchKeys(app) {
  const bindings = keyGroups(app).flatMap(([, rows]) => rows).flatMap(([names, , ...actions]) => (
    names.split("  ").slice(0, actions.length).map((name, at) => [name === "Space" ? " " : name, actions[at]])
  ));
  const tabs = TABS.map((tab, at) => [String(at + 1), () => app.go({ tab })]);
  const arrows = [["ArrowRight", () => app.navigation.toggle(true)], ["ArrowLeft", () => app.navigation.toggle(false)]];
  const actions = Object.fromEntries([...bindings, ...tabs, ...arrows]);
  // With a replay, Space after a mouse click runs or pauses it; it neither presses the button again nor opens the choices.
  let clicked = null;
  addEventListener("pointerdown", (event) => { clicked = event.target.closest("button, summary, select"); });
  addEventListener("keydown", (event) => {
    if (event.key === "Tab") clicked = null;
    const isClicked = event.key === " " && app.playhead && event.target === clicked;
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || byId("dialog").open) return;
    if (event.key === "Escape") { pressEscape(app, event); return; }
    if (isClicked) app.focusList();
    else if (INPUTS.test(event.target.tagName)) return;
    if (event.key.startsWith("Arrow") && !event.target.closest(".list")) return;
    // Enter and Space press a focused button.
    if (!isClicked && [" ", "Enter"].includes(event.key) && event.target.closest("button, summary, [role=separator], a")) return;
    if (!Object.hasOwn(actions, event.key)) return;
    event.preventDefault();
    actions[event.key]();
  });
}

/** The keys in groups, as far as they do anything: `[names, effect, ...actions]`, an action for each name. */
function keyGroups(app) {
  const { navigation, playhead, recording, report } = app;
  const tools = byId("tools");
  const isDurable = (item) => item.kind === "row" && item.row.kind === "durable";
  const stepDurable = (direction) => () => navigation.step(direction, isDurable, "durable event");
  const modes = Object.keys(TIME_MODES);
  return [
    ["Step", [
      ["j  ↓", "next row", () => navigation.step(1)],
      ["k  ↑", "previous row", () => navigation.step(-1)],
      ["J  K", "next, previous durable event", stepDurable(1), stepDurable(-1)],
      ["n  p", "next, previous finding", () => navigation.stepFinding(1), () => navigation.stepFinding(-1)],
      ["Home  End", "first, last row"],
      ["g", "go to a sequence, an event or an id", () => showGoToDialog(app)],
    ]],
    ["Show", [
      ["/", "filter", () => byId("filter").select()],
      ["Enter", "open or close a run of deltas", () => navigation.toggle()],
      ["d", "every delta as a row, or runs of deltas", () => app.go({ deltas: !app.view.deltas, open: app.view.open.filter((key) => !key.startsWith("e")) })],
      !tools.hidden && ["t", `${tools.textContent.toLowerCase()} as one row each`, () => app.go({ tools: !app.view.tools })],
      ["1–5", "payload, bytes, findings, client state, headers"],
      ["r", "bytes, and back", () => app.go({ tab: app.view.tab === "bytes" ? "payload" : "bytes" })],
    ]],
    ["Go", [
      ["x", "find an exchange: ↑ and ↓ show exchanges, Enter goes to the timeline", () => app.sidebar.focus()],
      ["e", "show or hide the list of exchanges", () => app.showSidebar(byId("sidebar").hidden)],
      ["[  ]", "previous, next exchange", () => navigation.stepExchange(-1), () => navigation.stepExchange(1)],
      ["c", "compare with the previous or next connection", () => navigation.compare()],
      recording.other && ["C", "compare with the other recording", () => navigation.diff()],
      ["l", "the event after the longest silence of the recording", () => navigation.goLongestSilence()],
      ["z  Z", "zoom to the exchange, to the whole recording", () => app.strip.zoomToExchange(), () => app.strip.axis.fit()],
      ["+  -", "zoom in, out; or drag over the times, turn the wheel, double-click", () => app.strip.zoomBy(0.5), () => app.strip.zoomBy(2)],
      ["T", "times since the recording or the exchange began, UTC, or local", () => app.go({ time: modes[(modes.indexOf(app.view.time) + 1) % modes.length] })],
      ["f", "all findings", () => navigation.showFindings()],
      report?.files.length > 1 && ["o", "choose a recording of the report", () => pickRecording(report, app.recordingNumber)],
      ["y  Y", "copy a link to this view, the command that shows it", () => copyText(location.href, "a link to this view"), () => navigation.copyCommand()],
      ["E", "save the recording in another format", () => showExportDialog(app)],
      ["Esc", "close, clear the filter, or back to the list"],
      ["?", "this help", () => showHelp(app)],
    ]],
    ["Replay", playhead ? playhead.keys() : []],
  ].map(([name, rows]) => [name, rows.filter((row) => row)]).filter(([, rows]) => rows.length);
}

export function showHelp(app) {
  const box = element("div", { class: "help" });
  for (const [name, rows] of keyGroups(app)) {
    const labels = (names) => names.split("  ").map((one) => element("kbd", { text: one }));
    box.append(element("h3", { text: name }), factList(rows.map(([names, effect]) => [element("span", null, ...labels(names)), effect])));
  }
  const filters = factList([...suggestedFilters(), ...FILTERS].map(([example, effect]) => [element("code", { text: example }), effect]));
  box.append(element("section", { class: "filters" }, element("h3", { text: "Filter" }), filters));
  openDialog("Keys", box, element("p", { class: "dim", text: `Fields of filters: ${filterFields().join(", ")}.` }));
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
