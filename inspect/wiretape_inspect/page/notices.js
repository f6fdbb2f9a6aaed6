// Notices to the reader: announcements for screen readers, errors, and short hints.

import { byId, element } from "./dom.js";
import { printable } from "./format.js";

const [ERROR_MS, HINT_MS] = [8000, 1600];

/** Announce something to screen readers. */
export function announce(text) {
  byId("announcements").textContent = printable(text);
}

export function showError(text) {
  show(byId("error-message"), text, ERROR_MS);
}

/** Return what a promise returns; if it fails, show the error and return undefined. */
export function orShowError(promise) {
  return promise.catch((error) => { if (error.name !== "AbortError") showError(error.message); });
}

/** Show a text for a moment that grows with its length, and announce it. */
export function showHint(text) {
  announce(`${text}.`);
  show(byId("hint"), text, HINT_MS + 40 * text.length);
}

function show(box, text, milliseconds) {
  box.textContent = printable(text);
  box.hidden = false;
  clearTimeout(Number(box.dataset.timer));
  box.dataset.timer = setTimeout(() => { box.hidden = true; }, milliseconds);
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
  showHint(`Copied ${name}`);
}
