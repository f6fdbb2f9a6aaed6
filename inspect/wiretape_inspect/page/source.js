// Where the page's data come from: the server that it was loaded from.  `embedded` has the other way.

class SourceWrong extends Error {}

const CHANGES = { "X-Wiretape-Debug": "1", "Content-Type": "application/json" };

function serverSource() {
  return {
    live: true,
    recording: () => askJson("/api/recording"),
    rows: (exchange, take, signal) => askLines(`/api/rows?exchange=${exchange}`, take, signal),
    deltas: async (exchange, first, last) => {
      const found = [];
      await askLines(`/api/events?exchange=${exchange}&first=${first}&last=${last}`, (rows) => found.push(...rows));
      return found;
    },
    overview: (exchange) => askJson(`/api/overview?exchange=${exchange}`),
    event: (exchange, event) => askJson(`/api/event?exchange=${exchange}&event=${event}`),
    cut: (exchange, start, event) => askJson(`/api/cut?exchange=${exchange}&start=${start}&event=${event}`),
    bodies: (exchange) => askJson(`/api/bodies?exchange=${exchange}`),
    filteredRows: async (exchange, filter) => {
      const found = [];
      await askLines(`/api/rows?exchange=${exchange}&filter=${encodeURIComponent(filter)}`, (rows) => found.push(...rows));
      return found.filter((row) => row.row !== "exchange");
    },
    resume: async (first, second) => {
      const found = [];
      await askLines(`/api/resume?first=${first}&second=${second}`, (rows) => found.push(...rows));
      return found;
    },
    listen: (query) => new EventSource(`/api/live?${query}`),
    replay: {
      state: () => askJson("/api/replay/state"),
      listen: () => new EventSource("/api/replay/events"),
      post: (what, body) => askJson(`/api/replay/${what}`, { method: "POST", body: JSON.stringify(body || {}) }),
      remove: (body) => askJson("/api/replay/breakpoints", { method: "DELETE", body: JSON.stringify(body) }),
    },
  };
}

async function asked(path, about, signal) {
  let answer;
  try {
    answer = await fetch(path, { ...about, headers: about ? CHANGES : {}, signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new SourceWrong("The program that serves this page does not answer: it may have been stopped.");
  }
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => null);
  const message = said && said.error && said.error.message;
  throw new SourceWrong(message || `The program that serves this page answered with status ${answer.status}.`);
}

async function askJson(path, about) {
  const answer = await asked(path, about);
  return readJson(await answer.text());
}

/** Hand on the JSON lines of an answer as they come, many at once. */
async function askLines(path, take, signal) {
  const answer = await asked(path, undefined, signal);
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    const lines = (rest + (value || "")).split("\n");
    rest = done ? "" : lines.pop();
    const rows = lines.filter((line) => line).map(readLine);
    if (rows.length) take(rows);
    if (done) return;
  }
}

function readLine(line) {
  const row = readJson(line);
  if (row.error && !row.row) throw new SourceWrong(row.error.message || "The recording cannot be read on.");
  return row;
}
