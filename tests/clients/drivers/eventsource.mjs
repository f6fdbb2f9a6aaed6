// npm eventsource: reconnects by itself.  Told in JSON: url, key, types, last (the id after which all is done).
// Writes one JSON line for each event it was handed.
import { EventSource } from "eventsource";

const told = JSON.parse(process.argv[2]);
const source = new EventSource(told.url, {
  fetch: (url, init) => fetch(url, { ...init, headers: { ...init.headers, Authorization: `Bearer ${told.key}` } }),
});
const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");

function hear(event) {
  say({ type: event.type, id: event.lastEventId, data: event.data });
  if (event.lastEventId === told.last) {
    source.close();
  }
}

for (const type of ["message", ...told.types]) {
  source.addEventListener(type, hear);
}
source.addEventListener("error", (event) => {
  if (source.readyState === EventSource.CLOSED) {
    say({ gave_up: String(event.code ?? event.message ?? "closed") });
  }
});
