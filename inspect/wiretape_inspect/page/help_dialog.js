// The help: all keys, and the grammar of filters in examples.

import { openDialog } from "./dialogs.js";
import { element, factList } from "./dom.js";
import { filterFields } from "./filter_grammar.js";

/** The keys; `plural` is what people call the entities inside another one. */
const keys = (plural) => [
  ["Step", [
    ["j  ↓", "next row"],
    ["k  ↑", "previous row"],
    ["J  K", "next, previous durable event"],
    ["n  p", "next, previous finding"],
    ["Home  End", "first, last row"],
    ["g", "go to a sequence, an event or an id"],
  ]],
  ["Show", [
    ["/", "filter"],
    ["Enter", "open or close a run of deltas"],
    ["d", "every delta as a row, or runs of deltas"],
    ["t", `${plural} as one row each`],
    ["1–5", "payload, bytes, findings, client state, headers"],
    ["r", "bytes, and back"],
  ]],
  ["Go", [
    ["x", "find an exchange: ↑ and ↓ show exchanges, Enter goes to the timeline"],
    ["e", "show or hide the list of exchanges"],
    ["[  ]", "previous, next exchange"],
    ["c", "compare with the previous or next connection"],
    ["C", "compare with the other recording"],
    ["l", "the event after the longest silence of the recording"],
    ["z  Z", "zoom to the exchange, to the whole recording"],
    ["+  -", "zoom in, out; or drag over the times, turn the wheel, double-click"],
    ["T", "times since the recording or the exchange began, UTC, or local"],
    ["f", "all findings"],
    ["o", "choose a recording of the report"],
    ["y", "copy a link to this view"],
    ["Y", "copy the command that shows this event"],
    ["Esc", "close, clear the filter, or back to the list"],
    ["?", "this help"],
  ]],
];
const REPLAY_KEYS = ["Replay", [
  ["Space", "pause or run"],
  [".", "step: send one event"],
  [">", "step to the next durable event"],
  ["F", "follow the playhead: select the next event whenever it moves"],
  ["b", "breakpoint before the selected event; for a delta, before any event of its type"],
  ["s", "seek to just after the selected event"],
]];
const FILTERS = [
  ["type:*.started", "these types; * matches any text"],
  ["gap:>1s seq:40..60", "both conditions must match"],
  ["type:error,*.failed or rule:SSE*", "one of them must match"],
  ["-kind:delta", "everything else"],
  ['"some text"', "this text, anywhere in the data"],
];

/** Show the help, without the keys `hidden`. */
export function showHelp(plural, hidden, hasReplay) {
  const box = element("div", { class: "help" });
  for (const [name, group] of hasReplay ? [...keys(plural), REPLAY_KEYS] : keys(plural)) {
    const shown = group.filter(([names]) => !hidden.includes(names));
    const labels = (names) => names.split(/ +/).map((one) => element("kbd", { text: one }));
    box.append(element("h3", { text: name }), factList(shown.map(([names, effect]) => [element("span", null, ...labels(names)), effect])));
  }
  const filters = factList(FILTERS.map(([example, effect]) => [element("code", { text: example }), effect]));
  box.append(element("section", { class: "filters" }, element("h3", { text: "Filter" }), filters));
  openDialog("Keys", box, element("p", { class: "dim", text: `Fields of filters: ${filterFields().join(", ")}.` }));
}
