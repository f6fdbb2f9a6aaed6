// Notices to the reader: announcements for screen readers, errors, and short hints.

import { byId, element } from "./dom.js";
import { printable } from "./format.js";

const ERROR_MS = 8000;
const HINT_MS = 1600;
let errorTimer = 0;
let hintTimer = 0;

/** Announce something to screen readers. */
export function announce(text) {
  byId("announcements").textContent = printable(text);
}

export function showError(text) {
  const box = byId("error-message");
  box.textContent = printable(text);
  box.hidden = false;
  clearTimeout(errorTimer);
  errorTimer = setTimeout(() => { box.hidden = true; }, ERROR_MS);
}

export function showHint(text) {
  let box = byId("hint");
  if (!box) document.body.append(box = element("div", { id: "hint", class: "hint", "aria-hidden": "true" }));
  box.textContent = printable(text);
  box.hidden = false;
  clearTimeout(hintTimer);
  hintTimer = setTimeout(() => { box.hidden = true; }, HINT_MS);
}

/** Copy a text to the clipboard; `name` is what the reader calls it. */
export async function copyText(text, name) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = element("textarea", { value: text, readOnly: true, class: "quiet" });
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  announce(`Copied ${name}.`);
  showHint(`Copied ${name}`);
}
