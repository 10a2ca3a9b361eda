// Small pieces that several views share.
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { type Alert, type ApiError, type Flow, type TopRow, addressWithToken } from "../api";
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

/** Downloads the packets of a host or flow: those that come from now on, or those of the files. */
export function Download({ what, file }: { what: { host: string } | { flow: string }; file: boolean }) {
  const [seconds, setSeconds] = useState(10);
  if (file) {
    return (
      <a class="button" href={addressWithToken("packets", what)} download>
        Download pcapng
      </a>
    );
  }
  return (
    <span class="download">
      <label>
        packets of the next{" "}
        <select value={seconds} onChange={(event) => setSeconds(Number(event.currentTarget.value))}>
          {[5, 10, 30, 60, 300].map((choice) => (
            <option key={choice} value={choice}>
              {choice} s
            </option>
          ))}
        </select>
      </label>{" "}
      <a class="button" href={addressWithToken("packets", { ...what, seconds })} download>
        Download pcapng
      </a>
    </span>
  );
}
