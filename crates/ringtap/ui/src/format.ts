// Numbers as people read them.

const PREFIXES = ["", "k", "M", "G", "T", "P"];

function scaled(value: number, unit: string): string {
  let power = 0;
  let rest = value;
  while (rest >= 999.5 && power < PREFIXES.length - 1) {
    rest /= 1000;
    power += 1;
  }
  const digits = power === 0 || rest >= 100 ? 0 : rest >= 10 ? 1 : 2;
  return `${rest.toFixed(digits)} ${PREFIXES[power]}${unit}`.trim();
}

export const bytes = (value: number | null | undefined): string => (value == null ? "–" : scaled(value, "B"));
export const bits = (value: number | null | undefined): string => (value == null ? "–" : scaled(value, "bit/s"));
export const count = (value: number | null | undefined): string => (value == null ? "–" : scaled(value, ""));
/** A count in full, with separators. */
export const exact = (value: number | null | undefined): string =>
  value == null ? "–" : value.toLocaleString("en", { maximumFractionDigits: 0 });

export function nanos(value: number | null | undefined): string {
  if (value == null) return "–";
  if (value < 1e3) return `${value.toFixed(0)} ns`;
  if (value < 1e6) return `${(value / 1e3).toFixed(1)} µs`;
  if (value < 1e9) return `${(value / 1e6).toFixed(1)} ms`;
  return `${(value / 1e9).toFixed(2)} s`;
}

const two = (value: number): string => String(value).padStart(2, "0");

export function time(ms: number | null | undefined): string {
  if (ms == null) return "–";
  const at = new Date(ms);
  return `${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`;
}

export function dateTime(ms: number | null | undefined): string {
  if (ms == null) return "–";
  const at = new Date(ms);
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${time(ms)}`;
}

export function duration(ms: number): string {
  if (ms < 1000) return `${ms.toFixed(0)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds.toFixed(1)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${two(Math.floor(seconds % 60))} s`;
  return `${Math.floor(seconds / 3600)} h ${two(Math.floor((seconds % 3600) / 60))} min`;
}

/** An address and a port, as tcpdump's users write them; IPv6 addresses get brackets. */
export function endpoint(address: string, port: number | null): string {
  if (port == null) return address;
  return address.includes(":") ? `[${address}]:${port}` : `${address}:${port}`;
}

/** Name and number of a process; the key has its start behind the number. */
export function process(row: { key: string; name: string | null }): string {
  return `${row.name ?? ""}:${row.key.split("@")[0]}`;
}
