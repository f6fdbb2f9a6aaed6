// @microsoft/fetch-event-source: reconnects after an error; a clean end is final.  It is made for browsers, so it is
// given what it looks for there.  See eventsource.mjs for what is told and what is written.
import { createRequire } from "node:module";

globalThis.window = globalThis;
globalThis.document = { hidden: false, addEventListener() {}, removeEventListener() {} };
const { fetchEventSource } = createRequire(import.meta.url)("@microsoft/fetch-event-source");

const told = JSON.parse(process.argv[2]);
const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");
const stop = new AbortController();
let done = false;

await fetchEventSource(told.url, {
  headers: { Authorization: `Bearer ${told.key}` },
  signal: stop.signal,
  onmessage(message) {
    say({ type: message.event, id: message.id, data: message.data });
    if (message.id === told.last) {
      done = true;
      stop.abort();
    }
  },
});
if (!done) {
  say({ gave_up: "took the end of the connection for the end of the stream" });
}
