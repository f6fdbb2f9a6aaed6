// Numbers and times in filters: `7`, `40..60`, `..60`, `>1s`, `<=200ms`.

const NUMBER_FIELDS = { seq: "count", event: "count", exchange: "count", gap: "time" };
const TIME_UNITS = { ns: 1n, us: 1000n, ms: 1000000n, s: 1000000000n, min: 60000000000n, h: 3600000000000n };

class RangeWrong extends Error {}

function holds(range, number) {
  return (range.low === null || range.low <= number) && (range.high === null || number <= range.high);
}

/** `{low, high}` as BigInt or null, both included; a time alone means that long or longer.  Throws RangeWrong. */
function readRange(text, unit) {
  const compared = /^(>=|<=|>|<)([^]*)$/.exec(text);
  if (compared) {
    const sign = compared[1];
    const number = readNumber(compared[2], unit);
    if (unit === "time" && sign === "<" && number === 0n) throw new RangeWrong("no time is shorter than none");
    if (sign === ">") return { low: number + 1n, high: null };
    if (sign === ">=") return { low: number, high: null };
    return { low: null, high: sign === "<" ? number - 1n : number };
  }
  if (text.includes("..")) return readBetween(text, unit);
  const number = readNumber(text, unit);
  return { low: number, high: unit === "time" ? null : number };
}

function readBetween(text, unit) {
  const at = text.indexOf("..");
  const [begin, end] = [text.slice(0, at), text.slice(at + 2)];
  const low = begin ? readNumber(begin, unit) : null;
  const high = end ? readNumber(end, unit) : null;
  if (low === null && high === null) throw new RangeWrong("write a number before or after the two dots");
  if (low !== null && high !== null && low > high) throw new RangeWrong("it ends before it begins");
  return { low, high };
}

function readNumber(text, unit) {
  if (unit === "count") {
    if (!/^-?\d{1,25}$/.test(text)) throw new RangeWrong("write a number, a range like 40..60, or >40");
    return BigInt(text);
  }
  const found = /^(\d{1,15})(?:\.(\d{1,9}))?(ns|us|ms|s|min|h)$/.exec(text);
  if (!found) throw new RangeWrong("write a time with its unit (ns, us, ms, s, min, h), like >1s or 200ms..2s");
  const scale = TIME_UNITS[found[3]];
  return BigInt(found[1]) * scale + (BigInt((found[2] || "").padEnd(9, "0")) * scale) / 1000000000n;
}
