// The modal dialog, of which there is one.

import { byId, element } from "./dom.js";

export function openDialog(title, ...content) {
  const dialog = byId("dialog");
  const close = element("button", { type: "button", class: "plain key", text: "✕", "aria-label": "Close (Esc)", onclick: closeDialog });
  dialog.replaceChildren(element("div", { class: "dialog-head" }, element("h2", { id: "dialog-title", text: title }), close), ...content);
  if (!dialog.open) dialog.showModal();
}

export function closeDialog() {
  byId("dialog").close();
}

export function watchDialog() {
  const dialog = byId("dialog");
  // The event comes late: the dialog may be open again.
  dialog.addEventListener("close", () => { if (!dialog.open) dialog.replaceChildren(); });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) closeDialog(); });
}
