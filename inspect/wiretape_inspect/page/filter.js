// The grammar of filters, as docs/filter.md has it: a text becomes groups of terms.

const FILTER_FIELDS = ["type", "kind", "id", "rule", "run", "tool", "session", "seq", "event", "exchange", "gap", "text"];
const FILTER_KINDS = [
  "message", "durable", "delta", "ephemeral", "comment", "pause", "cut", "oversized", "lost", "end", "request",
];
const QUOTE_ESCAPES = { '"': '"', "\\": "\\", n: "\n", t: "\t", r: "\r" };

class FilterWrong extends Error {}

/** `[[{field, negated, values: [{text, literal} | {regex} | {low, high}]}]]`.  Throws FilterWrong: one sentence. */
function parseFilter(text) {
  return new FilterReader(text).groups();
}

class FilterReader {
  constructor(text) {
    this.text = text;
    this.at = 0;
  }

  groups() {
    const groups = [];
    let group = [];
    while (this.skipSpace()) {
      if (!this.takesOr()) {
        group.push(this.term());
        continue;
      }
      if (!group.length) throw this.wrong(this.at - 2, "`or` stands between two conditions.");
      groups.push(group);
      group = [];
    }
    if (!group.length && groups.length) throw this.wrong(this.text.length, "a condition is missing after `or`.");
    return group.length ? [...groups, group] : groups;
  }

  takesOr() {
    if (!/^or(\s|$)/.test(this.text.slice(this.at, this.at + 3))) return false;
    this.at += 2;
    return true;
  }

  term() {
    const negated = this.peek() === "-";
    if (negated) this.at += 1;
    if (negated && !this.peek().trim()) throw this.wrong(this.at - 1, "a condition is missing after `-`.");
    const begin = this.at;
    const field = this.name() || "text";
    const values = [this.value(field)];
    while (this.peek() === ",") {
      this.at += 1;
      values.push(this.value(field));
    }
    if (this.peek().trim()) {
      throw this.wrong(this.at, `a space is missing after ${shown(this.text.slice(begin, this.at), 200)}.`);
    }
    return { field, negated, values };
  }

  name() {
    let end = this.at;
    while (end < this.text.length && !/[\s,":/]/.test(this.text[end])) end += 1;
    if (this.text[end] !== ":") return "";
    const name = this.text.slice(this.at, end);
    if (!FILTER_FIELDS.includes(name)) throw this.wrong(this.at, unknownWord("field", name, FILTER_FIELDS));
    this.at = end + 1;
    return name;
  }

  value(field) {
    const begin = this.at;
    const found = field === "text" && this.peek() === "/" ? this.regex() : this.plainOrQuoted();
    if (found.regex) return found;
    if (!found.text && !found.literal) throw this.wrong(begin, `a value of \`${field}\` is missing here.`);
    if (field === "kind" && !FILTER_KINDS.includes(found.text)) {
      throw this.wrong(begin, unknownWord("kind", found.text, FILTER_KINDS));
    }
    if (!(field in NUMBER_FIELDS)) return found;
    try {
      return readRange(found.text, NUMBER_FIELDS[field]);
    } catch (error) {
      throw this.wrong(begin, `'${shown(found.text, 200)}' is no value of \`${field}\`: ${error.message}.`);
    }
  }

  plainOrQuoted() {
    if (this.peek() === '"') return this.quoted();
    const begin = this.at;
    while (this.peek() && !/[\s",]/.test(this.peek())) this.at += 1;
    return { text: this.text.slice(begin, this.at), literal: false };
  }

  quoted() {
    const begin = this.at;
    let said = "";
    for (this.at += 1; this.peek() !== '"'; this.at += 1) {
      let char = this.peek();
      if (!char) throw this.wrong(begin, "the quotation mark is not closed.");
      if (char === "\\") {
        this.at += 1;
        char = Object.hasOwn(QUOTE_ESCAPES, this.peek()) ? QUOTE_ESCAPES[this.peek()] : "";
        if (!char) throw this.wrong(this.at - 1, 'after a backslash only \\, ", n, t and r may stand in quotes.');
      }
      said += char;
    }
    this.at += 1;
    return { text: said, literal: true };
  }

  regex() {
    const begin = this.at;
    let said = "";
    for (this.at += 1; this.peek() !== "/"; this.at += 1) {
      let char = this.peek();
      if (!char) throw this.wrong(begin, "the / at the end of the regular expression is missing.");
      if (char === "\\" && this.text[this.at + 1]) {
        this.at += 1;
        char = this.peek() === "/" ? "/" : `\\${this.peek()}`;
      }
      said += char;
    }
    this.at += 1;
    const fault = regexFault(said);
    if (fault) throw this.wrong(begin, `the regular expression ${fault}.`);
    return { regex: said };
  }

  peek() {
    return this.text.charAt(this.at);
  }

  skipSpace() {
    while (/\s/.test(this.peek())) this.at += 1;
    return this.at < this.text.length;
  }

  wrong(at, what) {
    return new FilterWrong(`Filter, at character ${at + 1}: ${what}`);
  }
}

function unknownWord(thing, word, words) {
  const guess = nearest(word, words);
  const hint = guess ? `did you mean \`${guess}\`?` : `there are ${words.join(", ")}.`;
  return `there is no ${thing} \`${shown(word, 200)}\`; ${hint}`;
}

/** The word that most likely was meant: the one that shares most pairs of letters. */
function nearest(word, words) {
  const pairs = (text) => new Set([...` ${text} `].map((char, at, all) => char + (all[at + 1] || "")));
  const mine = pairs(word);
  const likeness = (other) => {
    const theirs = pairs(other);
    return (2 * [...theirs].filter((pair) => mine.has(pair)).length) / (mine.size + theirs.size);
  };
  const best = words.map((other) => [likeness(other), other]).sort((a, b) => b[0] - a[0])[0];
  return best[0] >= 0.4 ? best[1] : null;
}

const REGEX_LONGEST = 200;
const REGEX_MOST = 3;
const REGEX_TOKEN =
  /(?<odd>\\[1-9]|\\k|\(\?(?:P=|\(|#|[aiLmsux-]+\)|[aiLmsux-]*x))|\\[^]|\[\^?\]?(?:\\[^]|[^\]\\])*\]|(?<open>\((?:\?(?:P<\w+>|<?[=!]|>|[aiLmsu-]*:))?)|(?<close>\))|(?<many>(?:[*+]|\{(?:\d+,?\d*|,\d*)\})[?+]?)|(?<or>\|)|(?<maybe>\?)|[^]/g;

/** What is wrong with a regular expression, to follow its name; null where it may be used. */
function regexFault(pattern) {
  if (!pattern) return "is empty";
  if (pattern.length > REGEX_LONGEST) return `is longer than ${REGEX_LONGEST} characters`;
  const slow = regexSlow(pattern);
  if (slow) return slow;
  try {
    compiled(pattern);
  } catch (error) {
    return `cannot be read: ${shown(error.message, 200)}`;
  }
  return null;
}

function regexSlow(pattern) {
  const loose = [false];
  let closed = false, repetitions = 0;
  for (const { groups } of pattern.matchAll(REGEX_TOKEN)) {
    if (groups.odd) return "refers back to a group, or has a comment or flags, which is not taken here";
    if (groups.many) {
      if (closed) return "repeats what repeats or has alternatives itself, which could take forever";
      loose[loose.length - 1] = true;
      repetitions += 1;
    } else if (groups.open) loose.push(false);
    else if (groups.close) {
      closed = loose.pop() || false;
      if (!loose.length) return "cannot be read: a parenthesis is not opened";
      if (closed) loose[loose.length - 1] = true;
    } else if (groups.or) loose[loose.length - 1] = true;
    if (!groups.close && !groups.maybe) closed = false;
  }
  return repetitions > REGEX_MOST ? `has more than ${REGEX_MOST} repetitions, which could take forever` : null;
}

/** An expression of Python as one of this browser. */
function compiled(pattern) {
  return new RegExp(pattern.replace(/\(\?P</g, "(?<").replace(/\\A/g, "^").replace(/\\Z/g, "$"), "");
}
