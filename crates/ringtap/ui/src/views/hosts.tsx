// All hosts, and one of them.
import { useState } from "preact/hooks";
import type { HostAnswer, HostRow, SeriesAnswer, Status } from "../api";
import * as format from "../format";
import { useAnswer } from "../live";
import { Chart, type Line } from "../parts/chart";
import { Card, Download, FlowLink, HostLink, Problem, Tile, topColumns } from "../parts/pieces";
import { type Column, type Sort, Table } from "../parts/table";

const COLUMNS: Column<HostRow>[] = [
  { key: "key", title: "host", cell: (row) => <HostLink address={row.key} name={row.name} /> },
  { key: "bytes", title: "bytes", numeric: true, sortable: true, cell: (row) => format.bytes(row.bytes) },
  { key: "bytes_out", title: "sent", numeric: true, cell: (row) => format.bytes(row.bytes_out) },
  { key: "bytes_in", title: "received", numeric: true, cell: (row) => format.bytes(row.bytes_in) },
  { key: "packets", title: "packets", numeric: true, sortable: true, cell: (row) => format.count(row.packets) },
  { key: "flows", title: "flows", numeric: true, sortable: true, cell: (row) => format.count(row.flows) },
  { key: "rtt", title: "round trip", numeric: true, cell: (row) => format.nanos(row.rtt_ns) },
  { key: "retransmissions", title: "retransmissions", numeric: true, cell: (row) => format.count(row.retransmissions) },
  { key: "last", title: "last seen", numeric: true, cell: (row) => format.time(row.last_ms) },
];

export function Hosts() {
  const [search, setSearch] = useState("");
  const [sort, setSort] = useState<Sort>({ key: "bytes", descending: true });
  const { value, error } = useAnswer<{ rows: HostRow[] }>("hosts", { search, by: sort.key, limit: 500 }, 2000);
  const rows = value?.rows ?? [];
  const shown = sort.descending ? rows : [...rows].reverse();
  const actions = (
    <label class="search">
      <span class="hidden">search for an address or a name</span>
      <input data-search type="search" placeholder="address or name" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
    </label>
  );
  return (
    <Card title="Hosts" actions={actions}>
      <Problem error={error} />
      <Table caption="hosts" columns={COLUMNS} rows={shown} id={(row) => row.key} sort={sort} onSort={setSort} empty="no host yet" />
    </Card>
  );
}

/** Bits per second, sent and received. */
function rates(series: SeriesAnswer): Line[] {
  const factor = 8000 / series.step_ms;
  return series.series.map((line) => ({ name: line.name, values: line.bytes.map((bytes) => (bytes === null ? null : bytes * factor)) }));
}

export function Host({ address, status }: { address: string; status: Status }) {
  const [window, setWindow] = useState("300");
  const { value: host, error } = useAnswer<HostAnswer>(`hosts/${encodeURIComponent(address)}`, { window }, 2000);
  if (!host) return <Card title={address}>{error ? <Problem error={error} /> : <p class="muted">loading</p>}</Card>;
  const about = [host.mac, host.vendor, host.as, host.country].filter((text) => text !== null).join(", ");
  return (
    <>
      <Card title={host.name ? `${host.name} (${host.address})` : host.address} actions={<Download what={{ host: host.address }} status={status} />}>
        <Problem error={error} />
        {about && <p>{about}</p>}
        <dl class="tiles">
          <Tile title="sent" value={format.bytes(host.bytes_out)} note={`${format.count(host.packets_out)} packets`} />
          <Tile title="received" value={format.bytes(host.bytes_in)} note={`${format.count(host.packets_in)} packets`} />
          <Tile title="flows" value={format.count(host.active_flows)} note={`${format.count(host.flows)} in all`} />
          <Tile title="round trip" value={format.nanos(host.tcp?.server_rtt_ns ?? host.tcp?.client_rtt_ns)} />
          <Tile title="retransmissions" value={format.count(host.tcp?.retransmissions)} />
          <Tile title="DNS failures" value={format.count(host.dns?.failures)} {...(host.dns?.queries != null && { note: `of ${format.count(host.dns.queries)} queries` })} />
          <Tile title="seen" value={format.time(host.last_ms)} note={`since ${format.dateTime(host.first_ms)}`} />
        </dl>
        {host.names.length > 0 && <p>Names: {host.names.join(", ")}</p>}
      </Card>
      <Card
        title="Traffic over time"
        actions={
          <label>
            <span class="hidden">last</span>
            <select value={window} onChange={(event) => setWindow(event.currentTarget.value)}>
              <option value="300">5 minutes</option>
              <option value="21600">6 hours</option>
            </select>
          </label>
        }
      >
        {host.series && (
          <Chart label="Traffic of the host" from_ms={host.series.from_ms} step_ms={host.series.step_ms} lines={rates(host.series)} format={format.bits} height={160} />
        )}
      </Card>
      <div class="columns">
        <Card title="Peers">
          <Table caption="peers by bytes" columns={topColumns("host", host.peers, (row) => <HostLink address={row.key} name={row.name} />)} rows={host.peers} id={(row) => row.key} />
        </Card>
        <Card title="Applications">
          <Table caption="applications by bytes" columns={topColumns("name", host.applications, (row) => row.key)} rows={host.applications} id={(row) => row.key} />
        </Card>
      </div>
      <Card title="Flows">
        <Table
          caption="flows of this host"
          columns={[
            { key: "flow", title: "flow", cell: (flow) => <FlowLink flow={flow} /> },
            { key: "application", title: "application", cell: (flow) => flow.application ?? "–" },
            { key: "name", title: "name", cell: (flow) => flow.name ?? "–" },
            { key: "bytes", title: "bytes", numeric: true, cell: (flow) => format.bytes(flow.bytes + flow.reverse_bytes) },
            { key: "rtt", title: "round trip", numeric: true, cell: (flow) => format.nanos(flow.rtt_ns) },
            { key: "last", title: "last", numeric: true, cell: (flow) => format.time(flow.last_ms) },
          ]}
          rows={host.recent_flows}
          id={(flow) => flow.id}
        />
      </Card>
    </>
  );
}
