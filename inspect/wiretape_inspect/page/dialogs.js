// The dialogs: help, and going to a place.

let beforeDialog = null;

function openDialog(title, ...content) {
  const dialog = byId("dialog");
  if (!dialog.open) beforeDialog = document.activeElement;
  const close = make("button", { type: "button", class: "plain key", text: "✕", "aria-label": "Close (Esc)", onclick: closeDialog });
  const heading = make("h2", { id: "dialog-title", text: title });
  dialog.setAttribute("aria-labelledby", "dialog-title");
  dialog.replaceChildren(make("div", { class: "dialog-head" }, heading, close), ...content);
  if (!dialog.open) dialog.showModal();
  return dialog;
}

function closeDialog() {
  const dialog = byId("dialog");
  if (dialog.open) dialog.close();
}

function watchDialog() {
  const dialog = byId("dialog");
  dialog.addEventListener("close", () => {
    dialog.replaceChildren();
    if (beforeDialog && beforeDialog.isConnected) beforeDialog.focus();
    beforeDialog = null;
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) closeDialog(); });
}

const KEYS = [
  ["Step", [
    ["j  ↓", "next row"], ["k  ↑", "previous row"], ["J  K", "next, previous durable event"], ["n  p", "next, previous finding"],
    ["Home  End", "first and last row"], ["g", "go to a sequence, an event or an id"],
  ]],
  ["Look", [
    ["/", "filter"], ["Enter", "open or close a run of deltas or a tool call"], ["d", "each delta a row, or runs of them"], ["t", "tool calls as one row each"],
    ["1 2 3 4", "payload, bytes, findings, state here"], ["r", "bytes, and back"],
  ]],
  ["Move", [
    ["x", "choose an exchange"], ["[  ]", "previous, next exchange"], ["c", "compare with the connection before"], ["f", "all findings"], ["o", "choose a recording, where there are several"],
    ["y", "copy a link to this view"], ["Y", "copy the command that shows this event"], ["Esc", "close, clear the filter, or back to the list"], ["?", "this help"],
  ]],
];
const FILTERS = [
  ["type:tool.*", "these types; * is any text"],
  ["gap:>1s seq:40..60", "both have to be met"],
  ["type:run.*,session.* or rule:SEQ*", "one of them is enough"],
  ["-kind:delta", "all but these"],
  ['"some text"', "this text, anywhere in the data"],
];
const REPLAY_KEYS = ["Replay", [["Space", "pause, or go on"], [".", "step: let one event out"], [">", "step to the next durable event"], ["b", "breakpoint before the selected event; of a delta, before any of its type"], ["s", "seek behind the selected event"]]];

function showHelp(app) {
  const groups = app.recording.replay ? [...KEYS, REPLAY_KEYS] : KEYS;
  const box = make("div", { class: "help" });
  for (const [name, keys] of groups) {
    const list = make("dl", { class: "keys" });
    for (const [key, about] of keys) {
      if (key === "o" && byId("files").hidden) continue;
      const said = make("dt", null, ...key.split("  ").flatMap((one) => one.split(" ")).map((one) => make("kbd", { text: one })));
      list.append(said, make("dd", { text: about }));
    }
    box.append(make("section", null, make("h3", { text: name }), list));
  }
  const filters = make("dl", { class: "keys" });
  for (const [example, about] of FILTERS) filters.append(make("dt", null, make("code", { text: example })), make("dd", { text: about }));
  box.append(make("section", { class: "filters" }, make("h3", { text: "Filter" }), filters));
  const fields = `All that may stand before a colon: ${FILTER_FIELDS.join(", ")}.`;
  openDialog("Keys", box, make("p", { class: "dim", text: fields }));
}

/** Ask for a place, and go there. */
function askPlace(app) {
  const input = make("input", { type: "text", id: "place", spellcheck: false, autocomplete: "off", "aria-describedby": "place-wrong" });
  const wrong = make("p", { id: "place-wrong", class: "wrong", role: "alert" });
  const form = make("form", { class: "place-form" }, make("label", { htmlFor: "place", text: "Sequence, #event, exchange:event, or SSE id" }), input, wrong);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const said = goPlace(app, input.value.trim());
    if (said) setText(wrong, said);
    else closeDialog();
  });
  openDialog("Go to", form);
  input.focus();
}

/** Go to `42` (a sequence), `#57` (an event), `2:57` (an exchange and an event), or an id; what is wrong otherwise. */
function goPlace(app, text) {
  const place = /^(\d{1,12}):(\d{1,12})$/.exec(text);
  if (place && app.headOf(Number(place[1]))) {
    app.goEvent(Number(place[1]), Number(place[2]));
    return "";
  }
  const event = /^#(\d{1,12})$/.exec(text);
  if (event) return goWhere(app, `event ${event[1]}`, (row) => row.row === "event" ? row.event === Number(event[1]) : row.row === "deltas" && row.event <= Number(event[1]) && Number(event[1]) <= row.last_event, Number(event[1]));
  const byId = app.timeline.rowOf((row) => row.row === "event" && row.id === text);
  if (!byId && /^-?\d+$/.test(text)) return goWhere(app, `sequence ${text}`, (row) => row.row === "event" && row.sequence !== null && String(row.sequence) === text);
  return text ? goWhere(app, `id ${shown(text, 60)}`, (row) => row === byId) : "Write where to go.";
}

function goWhere(app, name, wanted, event) {
  const row = app.timeline.rowOf(wanted);
  if (!row) return `There is no ${name} in exchange ${app.view.now.x}${app.timeline.done ? "" : ", as far as it has been read"}.`;
  app.goEvent(app.view.now.x, event === undefined ? row.event : event);
  return "";
}
