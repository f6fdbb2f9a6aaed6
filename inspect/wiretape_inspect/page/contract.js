// Facts of the Agent Session Service's specification, which page.html contains as JSON (bundle.py writes them).

/** `cursorHeader`, `textDelta`, `reasoningDelta` (event types), `toolEnded` (event types that end a tool call), `failures` (event types). */
export const CONTRACT = JSON.parse(document.getElementById("contract").textContent);

/** A style class, with `failure` added for an event that reports one. */
export function withFailure(name, type) {
  return CONTRACT.failures.includes(type) ? `${name} failure` : name;
}
