// How times are shown: since the recording or the exchange began, or as wall-clock time.

import { formatTime } from "./format.js";

export const TIME_MODES = { recording: "Recording time", exchange: "Exchange time", utc: "UTC", local: "Local time" };
const DAY_MS = 86400000;
const clock = { mode: "recording", startedMs: 0, exchangeNs: 0 };

/** Change `mode` (a key of TIME_MODES), `startedMs` (when the recording began) or `exchangeNs` (when the exchange did). */
export function setClock(changes) {
  Object.assign(clock, changes);
}

/** The time, in nanoseconds since the recording began, at which the shown time is zero. */
export function originOfTimes() {
  if (clock.mode === "exchange") return clock.exchangeNs;
  if (clock.mode === "recording") return 0;
  const offsetMs = clock.mode === "local" ? new Date(clock.startedMs).getTimezoneOffset() * 60000 : 0;
  return -((clock.startedMs - offsetMs) % DAY_MS) * 1e6;
}

/** A time of the recording, with `digits` digits of a second. */
export function clockTime(nanoseconds, digits = 3) {
  const time = Number(nanoseconds);
  if (clock.mode === "recording" || clock.mode === "exchange") {
    const shown = time - originOfTimes();
    return digits === 3 ? formatTime(shown) : `${(shown / 1e9).toFixed(digits)}s`;
  }
  const unit = 10 ** digits;
  const ticks = Math.round((((time - originOfTimes()) / 1e9 + 86400) % 86400) * unit);
  const seconds = Math.floor(ticks / unit);
  const parts = [Math.floor(seconds / 3600) % 24, Math.floor(seconds / 60) % 60, seconds % 60].map((part) => String(part).padStart(2, "0"));
  return digits ? `${parts.join(":")}.${String(ticks % unit).padStart(digits, "0")}` : parts.join(":");
}
