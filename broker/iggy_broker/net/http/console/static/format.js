// Numbers, times and bytes as people read them.

const NEVER = 18446744073709551615n; // never, unlimited
const US_PER_MS = 1000n;
const RATES = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
];
const UNITS = {
  B: 1, KB: 1e3, MB: 1e6, GB: 1e9, TB: 1e12,
  KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40,
};
const SPANS = [
  [86_400n, "d"],
  [3_600n, "h"],
  [60n, "min"],
  [1n, "s"],
];

/** A whole number of any size, with separators. */
export function whole(value) {
  return BigInt(value).toLocaleString("en");
}

/** A rate or another measured number, short. */
export function short(value) {
  for (const [factor, letter] of RATES) {
    if (value >= factor) return `${(value / factor).toPrecision(3)} ${letter}`;
  }
  return String(Number(value.toPrecision(3)));
}

/** Bytes, short, like "1.02 kB". */
export function bytes(value) {
  const text = short(value);
  return `${text}${text.includes(" ") ? "" : " "}B`;
}

/** The same of a size as the API writes it: exact, with a unit that is seldom a handy one. */
export function size(text) {
  const [count, unit] = text.split(" ");
  return bytes(Number(count) * UNITS[unit]);
}

/** Microseconds since 1970, in the time zone of the browser, to the microsecond. */
export function time(us) {
  const all = BigInt(us);
  const date = new Date(Number(all / US_PER_MS));
  const part = (value, length = 2) => String(value).padStart(length, "0");
  const day = [date.getFullYear(), part(date.getMonth() + 1), part(date.getDate())].join("-");
  const clock = [date.getHours(), date.getMinutes(), date.getSeconds()].map((one) => part(one));
  return `${day} ${clock.join(":")}.${part(all % 1_000_000n, 6)}`;
}

/** When something was made; the first user was there before any clock was asked. */
export function made(us) {
  return BigInt(us) < 1_000_000n ? "with the broker" : time(us);
}

/** The time zone of the browser, like "Europe/Berlin". */
export function timeZone() {
  return Intl.DateTimeFormat().resolvedOptions().timeZone;
}

/** A duration in microseconds by its two largest units. */
export function duration(us) {
  if (BigInt(us) === NEVER) return "never";
  let left = BigInt(us) / 1_000_000n;
  const parts = [];
  for (const [seconds, unit] of SPANS) {
    if (left >= seconds && parts.length < 2) parts.push(`${left / seconds} ${unit}`);
    left %= seconds;
  }
  return parts.join(" ") || "0 s";
}

/** A size limit in bytes. */
export function limit(value) {
  return BigInt(value) === NEVER ? "unlimited" : `${whole(value)} B`;
}
