// Facts of the Agent Session Service's specification, which page.html contains as JSON (bundle.py writes them).

/** `cursorHeader`, `textDelta`, `reasoningDelta` (event types), `toolEnded` (event types that end a tool call). */
export const CONTRACT = JSON.parse(document.getElementById("contract").textContent);
