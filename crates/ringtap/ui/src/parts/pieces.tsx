// Small pieces that several views share.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { type Alert, type ApiError, type Flow, type Status, type TopRow, addressWithToken } from "../api";
import * as format from "../format";
import type { Column } from "./table";

export function Card({ title, children, actions }: { title: string; children: ComponentChildren; actions?: ComponentChildren }) {
  return (
    <section class="card">
      <header>
        <h2>{title}</h2>
        {actions}
      </header>
      {children}
    </section>
  );
}

export function Tile({ title, value, note, warn }: { title: string; value: string; note?: string; warn?: boolean }) {
  return (
    <div class={warn ? "tile warn" : "tile"}>
      <dt>{title}</dt>
      <dd>
        {value}
        {note && <small>{note}</small>}
      </dd>
    </div>
  );
}

export function Problem({ error }: { error: ApiError | null }) {
  return error && <p class="problem" role="alert">{error.message}</p>;
}

export function HostLink({ address, name }: { address: string; name?: string | null }) {
  return (
    <a href={`#/hosts/${encodeURIComponent(address)}`} title={address}>
      {name ?? address}
      {name && <span class="muted"> {address}</span>}
    </a>
  );
}

export function FlowLink({ flow }: { flow: Flow }) {
  return (
    <a href={`#/flows/${encodeURIComponent(flow.id)}`}>
      {flow.protocol} {format.endpoint(flow.source, flow.source_port)} → {format.endpoint(flow.destination, flow.destination_port)}
    </a>
  );
}

/** A bar behind a number, as long as its share of the greatest. */
export function Bar({ value, most, children }: { value: number; most: number; children: ComponentChildren }) {
  const share = most > 0 ? Math.max(1, (100 * value) / most) : 0;
  return (
    <span class="bar">
      <span style={{ width: `${share}%` }} aria-hidden="true" />
      <b>{children}</b>
    </span>
  );
}

/** The columns that tables of the most active have in common. */
export function topColumns(title: string, rows: TopRow[], key: (row: TopRow) => ComponentChildren): Column<TopRow>[] {
  const most = Math.max(0, ...rows.map((row) => row.bytes));
  return [
    { key: "key", title, cell: key },
    {
      key: "bytes",
      title: "bytes",
      numeric: true,
      cell: (row) => (
        <Bar value={row.bytes} most={most}>
          {row.error > 0 ? "≥ " : ""}
          {format.bytes(row.bytes)}
        </Bar>
      ),
    },
    { key: "packets", title: "packets", numeric: true, cell: (row) => format.count(row.packets) },
    { key: "flows", title: "flows", numeric: true, cell: (row) => format.count(row.flows) },
  ];
}

export function Alerts({ alerts }: { alerts: Alert[] }) {
  if (alerts.length === 0) return <p class="muted">no alerts</p>;
  return (
    <ul class="alerts">
      {alerts.map((alert) => (
        <li key={alert.seq}>
          <time dateTime={new Date(alert.time_ms).toISOString()}>{format.time(alert.time_ms)}</time> <b>{alert.kind}</b> {alert.text}
        </li>
      ))}
    </ul>
  );
}

/** What a download can hold: packets that were recorded, those that come from now on, or those of the files. */
function choices(what: { host: string } | { flow: string }, status: Status) {
  const of = (from: Status["packets_from"][number]) => {
    if (from === "files") return [{ name: "all packets", query: {} }];
    if (from === "live") return [5, 10, 30, 60, 300].map((seconds) => ({ name: `packets of the next ${seconds} s`, query: { seconds } }));
    if ("flow" in what) return [{ name: "recorded packets", query: {} }];
    const spans: [string, number][] = [["15 minutes", 900], ["hour", 3600], ["6 hours", 21600], ["day", 86400]];
    const to = Math.ceil(status.now_ms / 1000);
    return spans.map(([span, seconds]) => ({ name: `recorded packets of the last ${span}`, query: { from: to - seconds, to } }));
  };
  return status.packets_from.flatMap<{ name: string; query: Record<string, number> }>(of);
}

/** Downloads the packets of a host or flow. Nothing is shown where there are none, as for other exporters' records. */
export function Download({ what, status }: { what: { host: string } | { flow: string }; status: Status }) {
  const [chosen, setChosen] = useState(0);
  const all = choices(what, status);
  const choice = all[chosen] ?? all[0];
  if (!choice) return null;
  const link = (
    <a class="button" href={addressWithToken("packets", { ...what, ...choice.query })} download>
      Download pcapng
    </a>
  );
  if (all.length === 1) return link;
  return (
    <span class="download">
      <select aria-label="which packets" value={chosen} onChange={(event) => setChosen(Number(event.currentTarget.value))}>
        {all.map(({ name }, at) => (
          <option key={name} value={at}>
            {name}
          </option>
        ))}
      </select>{" "}
      {link}
    </span>
  );
}
