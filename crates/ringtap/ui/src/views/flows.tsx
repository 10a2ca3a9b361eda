// The table of flows, and one of them.
import { useEffect, useRef, useState } from "preact/hooks";
import { ApiError, type Flow, type FlowAnswer, type FlowsAnswer, type Status, addressWithToken, get } from "../api";
import * as format from "../format";
import { useAnswer } from "../live";
import { Card, Download, FlowLink, HostLink, Problem, Tile } from "../parts/pieces";
import { type Column, type Sort, VirtualTable } from "../parts/table";

const PAGE = 200;

const COLUMNS: Column<Flow>[] = [
  { key: "flow", title: "flow", cell: (flow) => <FlowLink flow={flow} /> },
  {
    key: "application",
    title: "application",
    cell: (flow) => <span title={flow.basis ? `by ${flow.basis}` : ""}>{flow.application ?? "–"}{flow.basis === "port" ? "?" : ""}</span>,
  },
  { key: "name", title: "name", cell: (flow) => <span title={flow.name_source ? `from ${flow.name_source}` : ""}>{flow.name ?? "–"}</span> },
  { key: "bytes", title: "bytes", numeric: true, sortable: true, cell: (flow) => format.bytes(flow.bytes + flow.reverse_bytes) },
  { key: "packets", title: "packets", numeric: true, sortable: true, cell: (flow) => format.count(flow.packets + flow.reverse_packets) },
  { key: "duration", title: "duration", numeric: true, sortable: true, cell: (flow) => format.duration(flow.last_ms - flow.first_ms) },
  { key: "rtt", title: "round trip", numeric: true, sortable: true, cell: (flow) => format.nanos(flow.rtt_ns) },
  { key: "last", title: "last packet", numeric: true, sortable: true, cell: (flow) => (flow.ended ? `${format.time(flow.last_ms)} ended` : format.time(flow.last_ms)) },
];

/** The pages of a result that have come so far. */
function usePages(filter: string, sort: Sort) {
  const [total, setTotal] = useState(0);
  const [error, setError] = useState<ApiError | null>(null);
  const [, redraw] = useState(0);
  const pages = useRef(new Map<number, Flow[]>());
  const view = useRef({ first: 0, last: PAGE });

  useEffect(() => {
    const control = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    pages.current.clear();
    const load = async () => {
      const first = Math.floor(view.current.first / PAGE);
      const last = Math.floor(Math.max(0, view.current.last - 1) / PAGE);
      try {
        for (let page = first; page <= last && !document.hidden; page += 1) {
          const parameters = { filter, sort: sort.key, order: sort.descending ? "desc" : "asc", offset: page * PAGE, limit: PAGE };
          const answer = await get<FlowsAnswer>("flows", parameters, control.signal);
          pages.current.set(page, answer.flows);
          setTotal(answer.total);
        }
        setError(null);
      } catch (problem) {
        if (control.signal.aborted) return;
        setError(problem instanceof ApiError ? problem : new ApiError(0, "the server does not answer", null));
      }
      redraw((count) => count + 1);
      if (!control.signal.aborted) timer = setTimeout(load, 2000);
    };
    void load();
    const early = () => {
      clearTimeout(timer);
      timer = setTimeout(load, 60);
    };
    loadSoon.current = early;
    return () => {
      control.abort();
      clearTimeout(timer);
    };
  }, [filter, sort.key, sort.descending]);

  const loadSoon = useRef<() => void>(() => undefined);
  const onView = (first: number, last: number) => {
    view.current = { first, last };
    const missing = [first, Math.max(first, last - 1)].some((at) => !pages.current.has(Math.floor(at / PAGE)));
    if (missing) loadSoon.current();
  };
  const row = (at: number): Flow | undefined => pages.current.get(Math.floor(at / PAGE))?.[at % PAGE];
  return { total, error, row, onView };
}

export function Flows({ initial }: { initial: string }) {
  const [typed, setTyped] = useState(initial);
  const [filter, setFilter] = useState(initial);
  const [sort, setSort] = useState<Sort>({ key: "bytes", descending: true });
  const { total, error, row, onView } = usePages(filter, sort);
  const apply = (event: Event) => {
    event.preventDefault();
    setFilter(typed.trim());
  };
  const actions = (
    <form class="actions" onSubmit={apply}>
      <label class="search">
        <span class="hidden">filter, as tcpdump has it</span>
        <input
          data-search
          type="search"
          placeholder="filter, such as host 10.0.0.1 and tcp port 443"
          value={typed}
          aria-invalid={error?.status === 400}
          onInput={(event) => setTyped(event.currentTarget.value)}
        />
      </label>
      <button type="submit">Filter</button>
      <a class="button" href={addressWithToken("flows.csv", { filter, sort: sort.key })} download="flows.csv">
        CSV
      </a>
    </form>
  );
  return (
    <Card title={`Flows (${format.exact(total)})`} actions={actions}>
      <Problem error={error} />
      <VirtualTable
        caption="flows"
        columns={COLUMNS}
        total={total}
        row={row}
        id={(flow) => flow.id}
        sort={sort}
        onSort={setSort}
        onView={onView}
        height={Math.max(300, innerHeight - 240)}
      />
    </Card>
  );
}

export function FlowDetail({ id, status }: { id: string; status: Status }) {
  const { value, error } = useAnswer<FlowAnswer>(`flows/${encodeURIComponent(id)}`, {}, 2000);
  if (!value) return <Card title="Flow">{error ? <Problem error={error} /> : <p class="muted">loading</p>}</Card>;
  const { flow, fields, first_bytes } = value;
  return (
    <>
      <Card title={flow.name ?? `${flow.protocol} ${format.endpoint(flow.destination, flow.destination_port)}`} actions={<Download what={{ flow: id }} status={status} />}>
        <Problem error={error} />
        <p>
          {flow.protocol} <HostLink address={flow.source} /> {flow.source_port !== null && `port ${flow.source_port}`} → <HostLink address={flow.destination} />{" "}
          {flow.destination_port !== null && `port ${flow.destination_port}`}
        </p>
        {(flow.source_process || flow.destination_process) && (
          <p>
            {flow.source_process ? format.process(flow.source_process) : "unknown process"} → {flow.destination_process ? format.process(flow.destination_process) : "unknown process"}
          </p>
        )}
        <dl class="tiles">
          <Tile title="application" value={flow.application ?? "–"} note={flow.basis ? `by ${flow.basis}` : ""} />
          <Tile title="sent" value={format.bytes(flow.bytes)} note={`${format.count(flow.packets)} packets`} />
          <Tile title="answered" value={format.bytes(flow.reverse_bytes)} note={`${format.count(flow.reverse_packets)} packets`} />
          <Tile title="duration" value={format.duration(flow.last_ms - flow.first_ms)} note={`since ${format.dateTime(flow.first_ms)}`} />
          <Tile title="round trip" value={format.nanos(flow.rtt_ns)} />
          <Tile title="state" value={flow.ended ? "ended" : "active"} note={flow.end_reason ?? flow.flags ?? ""} />
        </dl>
      </Card>
      <div class="columns">
        <Card title="Fields">
          <dl class="fields">
            {fields.map((field) => (
              <div key={field.name}>
                <dt>{field.name}</dt>
                <dd>{field.value}</dd>
              </div>
            ))}
          </dl>
        </Card>
        <Card title="First bytes">
          {first_bytes && first_bytes.length > 0 ? first_bytes.map((packet, at) => <Dump key={at} packet={packet} />) : <p class="muted">{status.file ? "No packet of this flow was found in the files yet." : "No packet of this flow came since it is shown here."}</p>}
        </Card>
      </div>
    </>
  );
}

/** Bytes in hexadecimal and as text, sixteen a line. */
function Dump({ packet }: { packet: NonNullable<FlowAnswer["first_bytes"]>[number] }) {
  const octets = packet.hex.match(/../g) ?? [];
  const lines: string[] = [];
  for (let at = 0; at < octets.length; at += 16) {
    const part = octets.slice(at, at + 16);
    const text = part.map((octet) => printable(Number.parseInt(octet, 16))).join("");
    lines.push(`${at.toString(16).padStart(4, "0")}  ${part.join(" ").padEnd(47)}  ${text}`);
  }
  return (
    <div class="dump">
      <h3>
        {format.time(packet.time_ms)} {packet.direction}, {format.exact(packet.length)} bytes{packet.truncated ? ", cut" : ""}
      </h3>
      <pre tabIndex={0}>{lines.join("\n")}</pre>
    </div>
  );
}

const printable = (octet: number): string => (octet >= 0x20 && octet < 0x7f ? String.fromCharCode(octet) : ".");
