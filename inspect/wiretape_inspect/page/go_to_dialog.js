// The dialog that goes to a sequence, an event or an SSE id.

import { closeDialog, openDialog } from "./dialogs.js";
import { element, setText } from "./dom.js";
import { shorten } from "./format.js";
import { showHint } from "./notices.js";
import { lastEvent } from "./timeline.js";

export function showGoToDialog(app) {
  const input = element("input", { type: "text", id: "place", spellcheck: false, autocomplete: "off", placeholder: "41, #57, 2:57 or evt_…", "aria-describedby": "place-error" });
  const problem = element("p", { id: "place-error", class: "wrong", role: "alert" });
  const label = element("label", { htmlFor: "place", text: "Sequence or event, #event, exchange:event, or SSE id" });
  const form = element("form", { class: "place-form" }, label, input, problem);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const found = findPlace(app, input.value.trim());
    if (found.problem) {
      setText(problem, found.problem);
      return;
    }
    app.navigation.goEvent(found.exchange, found.event);
    closeDialog();
    if (found.hint) showHint(found.hint);
  });
  openDialog("Go to", form);
  input.focus();
}

/** The exchange and the event of `42` (a sequence, or else an event), `#57` (an event), `2:57` or an SSE id; else a problem. */
function findPlace({ recording, timeline, view }, text) {
  if (!text) return { problem: "Enter a sequence, an event or an id." };
  const location = /^(\d{1,12}):(\d{1,12})$/.exec(text);
  if (location && recording.exchanges.some((head) => head.exchange === Number(location[1]))) {
    return { exchange: Number(location[1]), event: Number(location[2]) };
  }
  if (!timeline) return { problem: "This recording has no exchanges yet." };
  const rows = timeline.rows.filter((row) => row.row === "event");
  const found = rows.find((row) => row.id === text) || rows.find((row) => row.sequence !== null && String(row.sequence) === text);
  const number = /^#?(\d{1,12})$/.exec(text);
  const event = number && Number(number[1]);
  const hasEvent = number && timeline.rows.some((row) => row.event <= event && event <= lastEvent(row));
  const hint = found && hasEvent && found.event !== event && `Event ${found.event} has sequence ${found.sequence}; enter #${event} for event ${event}`;
  if (found || hasEvent) return { exchange: view.x, event: found ? found.event : event, hint };
  const name = number && text.startsWith("#") ? `event ${event}` : /^-?\d+$/.test(text) ? `sequence or event ${text}` : `id ${shorten(text, 60)}`;
  return { problem: `Exchange ${view.x} has no ${name}${timeline.done ? "" : " among the rows loaded so far"}.` };
}
