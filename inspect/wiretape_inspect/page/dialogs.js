// The modal dialog, of which there is one: opening it, closing it, and giving the focus back.

import { byId, element } from "./dom.js";

let focusBefore = null;

export function openDialog(title, ...content) {
  const dialog = byId("dialog");
  if (!dialog.open) focusBefore = document.activeElement;
  const close = { type: "button", class: "plain key", text: "✕", "aria-label": "Close (Esc)", onclick: closeDialog };
  const heading = element("h2", { id: "dialog-title", text: title });
  dialog.setAttribute("aria-labelledby", "dialog-title");
  dialog.replaceChildren(element("div", { class: "dialog-head" }, heading, element("button", close)), ...content);
  if (!dialog.open) dialog.showModal();
}

export function closeDialog() {
  const dialog = byId("dialog");
  if (dialog.open) dialog.close();
}

export function watchDialog() {
  const dialog = byId("dialog");
  dialog.addEventListener("close", () => {
    if (dialog.open) return;  // the event comes late, and the dialog was opened again
    dialog.replaceChildren();
    if (focusBefore && focusBefore.isConnected) focusBefore.focus();
    focusBefore = null;
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) closeDialog(); });
}
