// What a filter is asked about, and whether it takes it.

const SEARCHED = 65536;

/**
 * The function that says whether a subject is taken; null where everything is.  A subject has `kinds`, `exchange`,
 * and where it has them `session`, `run`, `event`, `sequence`, `type`, `id`, `tool`, `gap_ns`, `codes`, `texts`.
 * One with `last_event` is a run of deltas, and is taken where one of them would be.
 */
function taker(groups) {
  if (!groups.length) return null;
  const tests = groups.map((group) => group.map(condition));
  return (subject) => tests.some((group) => group.every((meets) => meets(subject)));
}

function condition(term) {
  const tests = term.values.map((value) => test(term.field, value));
  if (!term.negated) return (subject) => tests.some((meets) => meets(subject));
  const whole = term.field === "event" ? term.values.map((value) => coversRun(value)) : tests;
  return (subject) => {
    const refused = subject.last_event !== undefined ? whole : tests;
    return !refused.some((meets) => meets(subject));
  };
}

/** Whether a range has all deltas of a run. */
function coversRun(range) {
  return (subject) => holds(range, subject.event) && holds(range, subject.last_event);
}

function test(field, value) {
  if ("regex" in value) {
    const expression = compiled(value.regex);
    return (subject) => (subject.texts || []).some((text) => expression.test(text.slice(0, SEARCHED)));
  }
  if ("low" in value) return numberTest(field, value);
  if (field === "text") {
    const wanted = new RegExp(value.text.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"), "iu");
    return (subject) => (subject.texts || []).some((text) => wanted.test(text));
  }
  if (field === "kind") return (subject) => subject.kinds.includes(value.text);
  return likeTest(field, value);
}

/** Text without the difference of capitals. */
function folded(text) {
  return /^[\x00-\x7f]*$/.test(text) ? text.toLowerCase() : text.toUpperCase().toLowerCase();
}

const NUMBER_OF = {
  seq: (subject) => subject.sequence,
  event: (subject) => subject.event,
  exchange: (subject) => subject.exchange,
  gap: (subject) => subject.gap_ns,
};

function numberTest(field, big) {
  const range = { low: plainNumber(big.low), high: plainNumber(big.high) };
  return (subject) => {
    const number = NUMBER_OF[field](subject);
    if (number === null || number === undefined) return false;
    if (field !== "event" || subject.last_event === undefined) return holds(range, number);
    return (range.high === null || number <= range.high) && (range.low === null || range.low <= subject.last_event);
  };
}

function plainNumber(big) {
  return big === null || big > Number.MAX_SAFE_INTEGER || big < Number.MIN_SAFE_INTEGER ? big : Number(big);
}

const NAMES_OF = {
  type: (subject) => [subject.type],
  id: (subject) => [subject.id],
  rule: (subject) => subject.codes || [],
  run: (subject) => [subject.run],
  tool: (subject) => [subject.tool],
  session: (subject) => [subject.session],
};

function likeTest(field, value) {
  const names = NAMES_OF[field];
  const fold = field === "rule" ? folded : (text) => text;
  const wanted = fold(value.text);
  const same = value.literal || !/[*?]/.test(wanted) ? (name) => name === wanted : globber(wanted);
  return (subject) => names(subject).some((name) => name !== null && name !== undefined && same(fold(name)));
}

/** The function that says whether all of a name is as a pattern says. */
function globber(pattern) {
  if (pattern.includes("?")) return (name) => globs(pattern, name);
  const [first, ...others] = pattern.split("*");
  const last = others.pop();
  return (name) => {
    if (!name.startsWith(first)) return false;
    let at = first.length;
    for (const part of others) {
      const found = name.indexOf(part, at);
      if (found < 0) return false;
      at = found + part.length;
    }
    return name.length - last.length >= at && name.endsWith(last);
  };
}

/** Whether all of `name` is as `pattern` says: `*` any text, `?` any character.  Goes back to the last star only. */
function globs(pattern, name) {
  const [wanted, said] = [Array.from(pattern), Array.from(name)];
  let at = 0, here = 0, star = -1, from = 0;
  while (here < said.length) {
    if (wanted[at] === "*") {
      star = at;
      at += 1;
      from = here;
    } else if (at < wanted.length && (wanted[at] === "?" || wanted[at] === said[here])) {
      at += 1;
      here += 1;
    } else if (star >= 0) {
      at = star + 1;
      from += 1;
      here = from;
    } else return false;
  }
  while (wanted[at] === "*") at += 1;
  return at === wanted.length;
}

/** Whether a filter looks for texts, which rows do not have in full. */
function wantsText(groups) {
  return groups.some((group) => group.some((term) => term.field === "text"));
}

/**
 * A function like `take` that knows which messages are taken: those of `ranges` ({first, last}, in order), as far as
 * message number `until`; its `number` tells how many of a row are.
 */
function exactTaker(ranges, take, until) {
  const from = (event) => {
    let [low, high] = [0, ranges.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (ranges[middle].last < event) low = middle + 1;
      else high = middle;
    }
    return low;
  };
  const number = ({ event, last_event: end = event }) => {
    let found = 0;
    for (let at = from(event); at < ranges.length && ranges[at].first <= end; at += 1) {
      found += Math.min(ranges[at].last, end) - Math.max(ranges[at].first, event) + 1;
    }
    return found;
  };
  const known = (subject) => subject.event !== undefined && subject.event <= until;
  const exact = (subject) => (known(subject) ? number(subject) > 0 : take(subject));
  exact.number = (row) => (known(row) ? number(row) : messages(row));
  return exact;
}

/** A row of a stream, or the head of an exchange that is no stream, as a subject. */
function subjectOf(row, head) {
  const common = { exchange: head.exchange, session: head.session_id, codes: codesOf(row) };
  switch (row.row) {
    case "event":
      return {
        ...common, kinds: ["message", row.standing], run: row.run_id, event: row.event, sequence: row.sequence,
        type: row.type, id: row.id, tool: row.tool_call_id, gap_ns: row.gap_ns, texts: [row.preview],
      };
    case "deltas":
      return {
        ...common, kinds: ["message", "delta"], run: row.run_id, event: row.event, last_event: row.last_event,
        type: row.type, gap_ns: row.gap_ns, texts: [row.preview],
      };
    case "pause":
      return { ...common, kinds: pauseKinds(row), gap_ns: row.until_ns - row.time_ns, texts: [row.comment] };
    case "end":
      return { ...common, kinds: ["end"], gap_ns: row.gap_ns, texts: [`${row.words} ${row.detail}`] };
    case "lost":
      return { ...common, kinds: ["lost"], texts: [row.why] };
    case "exchange":
      return {
        ...common, kinds: ["request"], run: row.run_id,
        texts: [`${row.method} ${row.target}`, row.request_preview || "", row.response_preview || ""],
      };
    default:
      return { ...common, kinds: [row.row], texts: [row.preview || ""] };
  }
}

function codesOf(row) {
  return row.findings && row.findings.length ? row.findings.map((found) => found.code) : [];
}

function pauseKinds(row) {
  const kinds = row.until_ns - row.time_ns >= 1e9 ? ["pause"] : [];
  return row.keep_alives ? [...kinds, "comment"] : kinds;
}
