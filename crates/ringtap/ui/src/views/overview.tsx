// The first page: how much, by what, who talks most, what is wrong.
import { useState } from "preact/hooks";
import type { SeriesAnswer, Status, TopAnswer, TopRow } from "../api";
import * as format from "../format";
import { useAnswer } from "../live";
import { Chart, type Line } from "../parts/chart";
import { Alerts, Card, HostLink, Problem, Tile, topColumns } from "../parts/pieces";
import { Table } from "../parts/table";

const DAY_MS = 86_400_000;
const SPANS: [string, number][] = [
  ["5 minutes", 300_000],
  ["1 hour", 3_600_000],
  ["6 hours", 21_600_000],
  ["1 day", DAY_MS],
  ["7 days", 7 * DAY_MS],
  ["30 days", 30 * DAY_MS],
];
/** Series that are drawn; the rest become one. */
const MOST_LINES = 8;

interface Range {
  from: number;
  to: number;
}

export function Overview({ status }: { status: Status }) {
  return (
    <>
      <Tiles status={status} />
      <Traffic status={status} />
      <div class="columns">
        <Top of="hosts" title="Hosts" />
        <Top of="applications" title="Applications" />
        <Top of="processes" title="Processes" optional />
        <Top of="as" title="Autonomous systems" optional />
        <Top of="countries" title="Countries" optional />
        <Card title="Alerts">
          <Alerts alerts={status.alerts.slice(0, 8)} />
        </Card>
      </div>
    </>
  );
}

function Tiles({ status }: { status: Status }) {
  // Sampling leaves packets out on request, and another program before the hook takes them.
  const lost = status.losses.filter((loss) => !["sampling", "before_hook"].includes(loss.layer)).reduce((sum, loss) => sum + (loss.packets ?? 0), 0);
  const { totals, rates, tcp, dns } = status;
  return (
    <dl class="tiles">
      <Tile title="traffic" value={format.bits(rates.bits_per_s)} note={`${format.bytes(totals.bytes)} in all`} />
      <Tile title="packets" value={`${format.count(rates.packets_per_s)}/s`} note={`${format.count(totals.packets)} in all`} />
      <Tile title="flows" value={format.count(totals.active_flows)} note={`${format.count(rates.new_flows_per_s)} new/s`} />
      <Tile title="hosts" value={format.count(totals.hosts)} />
      <Tile title="retransmissions" value={format.count(tcp.retransmissions)} note={`${format.count(tcp.resets)} resets`} />
      <Tile title="DNS failures" value={format.count(dns.failures)} {...(dns.queries !== null && { note: `of ${format.count(dns.queries)} queries` })} />
      <Tile title="lost packets" value={format.exact(lost)} warn={lost > 0} />
    </dl>
  );
}

function Traffic({ status }: { status: Status }) {
  const [by, setBy] = useState("protocol");
  const [unit, setUnit] = useState<"bytes" | "packets">("bytes");
  const [span, setSpan] = useState(300_000);
  const [zoom, setZoom] = useState<Range | null>(null);
  const [compared, setCompared] = useState(false);

  const live = zoom === null;
  // A file's time is that of its packets, so the server chooses the range.
  const window = zoom ?? (status.file ? null : { from: status.now_ms - span, to: status.now_ms });
  // Without `from`, the server answers with the last five minutes.
  const from = window && span > SPANS[0]![1] ? Math.floor(window.from / 10_000) * 10_000 : undefined;
  const asked = useAnswer<SeriesAnswer>("series", { by, from: zoom?.from ?? from, to: zoom?.to }, live ? 1000 : 0);
  const yesterday = useAnswer<SeriesAnswer>(
    "series",
    { by: "total", from: round(window?.from ?? 0) - DAY_MS, to: round(window?.to ?? 0) - DAY_MS },
    compared && window ? 10_000 : 0,
  );
  const answer = asked.value;
  const lines = answer ? shownLines(answer, unit, compared ? yesterday.value : null) : [];
  const label = `Traffic by ${by}`;
  const actions = (
    <div class="actions">
      <Choice label="by" value={by} choose={setBy} options={["total", "protocol", "application"].map((name) => [name, name])} />
      <Choice label="unit" value={unit} choose={(value) => setUnit(value === "packets" ? "packets" : "bytes")} options={[["bytes", "bits per second"], ["packets", "packets per second"]]} />
      {!status.file && (
        <Choice label="last" value={String(span)} choose={(value) => { setSpan(Number(value)); setZoom(null); }} options={SPANS.map(([name, ms]) => [String(ms), name])} />
      )}
      {!status.file && (
        <label>
          <input type="checkbox" checked={compared} onChange={(event) => setCompared(event.currentTarget.checked)} /> yesterday
        </label>
      )}
      {zoom && (
        <button type="button" onClick={() => setZoom(null)}>
          Back to live
        </button>
      )}
    </div>
  );
  return (
    <Card title={label} actions={actions}>
      <Problem error={asked.error} />
      {answer && lines.length > 0 ? (
        <Chart
          label={label}
          from_ms={answer.from_ms}
          step_ms={answer.step_ms}
          lines={lines}
          format={unit === "bytes" ? format.bits : (value) => `${format.count(value)}/s`}
          onRange={(from, to) => setZoom({ from, to })}
        />
      ) : (
        <p class="muted">no traffic yet</p>
      )}
      <p class="hint">Drag across the chart to zoom.</p>
    </Card>
  );
}

/** Whole minutes, so that the same range is not asked for under another name each second. */
const round = (ms: number): number => Math.floor(ms / 60_000) * 60_000;

function shownLines(answer: SeriesAnswer, unit: "bytes" | "packets", yesterday: SeriesAnswer | null): Line[] {
  const factor = (unit === "bytes" ? 8 : 1) * (1000 / answer.step_ms);
  const rate = (values: (number | null)[]) => values.map((value) => (value === null ? null : value * factor));
  const sum = (values: (number | null)[]) => values.reduce<number>((all, value) => all + (value ?? 0), 0);
  const sorted = [...answer.series].sort((a, b) => sum(b[unit]) - sum(a[unit]));
  // By name, so that no area changes its place and colour while two are about equal.
  const drawn = sorted.slice(0, MOST_LINES).sort((a, b) => a.name.localeCompare(b.name));
  const lines: Line[] = drawn.map((series) => ({ name: series.name, values: rate(series[unit]) }));
  const rest = sorted.slice(MOST_LINES);
  if (rest.length > 0) {
    const values = rest.reduce<number[]>((all, series) => series[unit].map((value, at) => (all[at] ?? 0) + (value ?? 0)), []);
    lines.push({ name: "others", values: rate(values) });
  }
  const before = yesterday?.series[0];
  if (yesterday && before) lines.push({ name: "yesterday", values: aligned(yesterday, before[unit], answer, unit), reference: true });
  return lines;
}

/** Yesterday's values at the times of today's, as rates. */
function aligned(yesterday: SeriesAnswer, values: (number | null)[], today: SeriesAnswer, unit: "bytes" | "packets"): (number | null)[] {
  const length = today.series[0]?.[unit].length ?? 0;
  const factor = (unit === "bytes" ? 8 : 1) * (1000 / yesterday.step_ms);
  return Array.from({ length }, (_, at) => {
    const time = today.from_ms + at * today.step_ms - DAY_MS;
    const value = values[Math.floor((time - yesterday.from_ms) / yesterday.step_ms)];
    return value == null ? null : value * factor;
  });
}

function Choice({ label, value, choose, options }: { label: string; value: string; choose: (value: string) => void; options: string[][] }) {
  return (
    <label>
      <span class="hidden">{label}</span>
      <select value={value} onChange={(event) => choose(event.currentTarget.value)}>
        {options.map(([key, name]) => (
          <option key={key} value={key}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The rows with most traffic; `optional` for those that need a database or tags: without a row there is no card. */
export function Top({ of, title, limit = 8, optional = false }: { of: string; title: string; limit?: number; optional?: boolean }) {
  const { value, error } = useAnswer<TopAnswer>("top", { of, limit }, 2000);
  const rows = value?.rows ?? [];
  const key = (row: TopRow) => {
    if (of === "hosts") return <HostLink address={row.key} name={row.name} />;
    if (of === "processes") return format.process(row);
    return of === "as" ? `AS${row.key} ${row.name ?? ""}` : row.key;
  };
  if (optional && rows.length === 0 && !error) return null;
  return (
    <Card title={title}>
      <Problem error={error} />
      <Table caption={`${title} by bytes`} columns={topColumns(of === "hosts" ? "host" : "name", rows, key)} rows={rows} id={(row) => row.key} />
    </Card>
  );
}
