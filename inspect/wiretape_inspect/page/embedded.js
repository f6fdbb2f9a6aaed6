// The data of an exported file: the same answers as a server's, from what stands in the page.

const STATE_KEPT = 100000;
const LEFT_OUT = "is left out of this file, which holds what is near the findings.";

/** Which of the recordings in a file is shown: the address says so, or else the report where to begin. */
const REPORT = byId("report") ? readJson(byId("report").textContent) : null;
if (REPORT && !location.hash) history.replaceState(null, "", `#${REPORT.start}`);
const FILE = REPORT ? fileIn(location.hash) : 1;

function fileIn(hash) {
  const number = Number(new URLSearchParams(hash.replace(/^#/, "")).get("f") || 1);
  return Number.isInteger(number) && byId(`data-${number}`) ? number : 1;
}

function embeddedSource() {
  const held = byId(FILE > 1 ? `data-${FILE}` : "data");
  if (!held) return null;
  const data = readJson(held.textContent);
  const blocks = new Map();
  const states = new Map();
  const detailsOf = async (exchange, event) => {
    const index = (data.details[exchange] || []).findIndex((block) => block.first <= event && event <= block.last);
    if (index < 0) throw new SourceWrong(`Event ${event} of exchange ${exchange} ${data.recording.report && data.recording.report.radius !== null ? LEFT_OUT : "is not there."}`);
    const name = `${exchange}/${index}`;
    if (!blocks.has(name)) {
      if (blocks.size > 20) blocks.delete(blocks.keys().next().value);
      blocks.set(name, unpacked(data.details[exchange][index].gzip));
    }
    const block = await blocks.get(name);
    return { block, at: event - data.details[exchange][index].first };
  };
  const stateOf = async (exchange, event) => {
    if (!states.has(exchange)) states.set(exchange, unpacked(data.states[exchange]));
    return stateAt(await states.get(exchange), event);
  };
  return {
    live: false,
    start: data.start || "",
    recording: async () => data.recording,
    rows: async (exchange, take) => take(data.rows[exchange] || []),
    deltas: async (exchange, first, last) => {
      const found = [];
      for (let event = first; event <= last; event += 1) {
        const { block, at } = await detailsOf(exchange, event).catch(() => ({ block: [], at: 0 }));
        if (block[at]) found.push(block[at]);
      }
      return found;
    },
    overview: async (exchange) => data.overviews[exchange] || null,
    event: async (exchange, event) => {
      const { block, at } = await detailsOf(exchange, event);
      const detail = block[at];
      const state = { ...(await stateOf(exchange, event)), time_ns: detail.time_ns };
      return withBytes({ ...detail, state });
    },
    cut: async (exchange, start) => {
      const found = (data.cuts[exchange] || []).find((cut) => cut.start === start);
      if (!found) throw new SourceWrong(`What was cut off at byte ${start} of exchange ${exchange} ${LEFT_OUT}`);
      return withBytes(found);
    },
    bodies: async (exchange) => (data.bodies || {})[exchange] || { request: null, response: null },
    filteredRows: async (exchange, _filter, matches) => {
      const head = data.recording.exchanges.find((one) => one.exchange === exchange);
      const matchesRow = (row) => matches(rowSubject(row, head));
      const messageOf = async (row, event) => {
        const { block, at } = await detailsOf(exchange, event).catch(() => ({ block: [], at: 0 }));
        return block[at] || { ...row, row: "event", kind: row.kind || "delta", event };
      };
      const found = [];
      for (const row of data.rows[exchange] || []) {
        if (row.row === "deltas") {
          const deltas = [];
          for (let event = row.event; event <= row.last_event; event += 1) deltas.push(await messageOf(row, event));
          found.push(...splitRun(row, deltas, matchesRow));
        } else if (row.row === "event" ? matchesRow({ ...row, ...(await messageOf(row, row.event)) }) : matchesRow(row)) {
          found.push(row);
        }
      }
      return found.filter((row) => row.row !== "exchange");
    },
    resume: async (first, second) => {
      const found = data.resumes[`${first}:${second}`];
      if (!found) throw new SourceWrong(`Exchanges ${first} and ${second} are not laid side by side in this file.`);
      return found;
    },
  };
}

/** Bytes that are UTF-8 stand in a file as text. */
function withBytes(detail) {
  return detail.base64 === undefined ? { ...detail, bytes: new TextEncoder().encode(detail.text) } : detail;
}

/** What was packed as JSON, gzip and base64. */
async function unpacked(base64) {
  const stream = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return readJson(await new Response(stream).text());
}

/** What a client knew just after a message: what all steps up to it say. */
function stateAt(states, event) {
  const state = { exchange: states.exchange, event, session: "unknown", cursor: null, last_sequence: null, connections: states.connections };
  const said = { text: null, reasoning: null };
  const [runs, calls] = [new Map(), new Map()];
  for (const [at, changes] of states.steps) {
    if (at > event) break;
    for (const name of ["session", "cursor", "last_sequence"]) if (name in changes) state[name] = changes[name];
    for (const name of ["text", "reasoning"]) if (name in changes) said[name] = changes[name];
    for (const span of changes.runs || []) runs.set(span.id, { ...runs.get(span.id), ...span });
    for (const span of changes.calls || []) calls.set(span.id, { ...calls.get(span.id), ...span });
  }
  state.text = spokenOf(states.texts, said.text);
  state.reasoning = spokenOf(states.texts, said.reasoning);
  state.runs = [...runs.values()];
  state.open_calls = [...calls.values()].filter((call) => call.ended === null);
  return state;
}

function spokenOf(texts, said) {
  if (!said) return { text: "", characters: 0, final: false };
  const [index, units, characters, final] = said;
  const text = texts[index].slice(0, units);
  return { text: characters > STATE_KEPT ? runText(text, STATE_KEPT) : text, characters, final };
}
