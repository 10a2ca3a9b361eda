// The types of the server's JSON (docs/reference/web-api.md), and the one way to ask for it.

export interface Loss {
  layer: string;
  /** Null where the layer's count is not known. */
  packets: number | null;
}

export interface Alert {
  seq: number;
  time_ms: number;
  kind: string;
  subject: string;
  text: string;
}

export interface TcpHealth {
  retransmissions: number | null;
  out_of_order: number | null;
  zero_windows: number | null;
  resets: number | null;
  client_rtt_ns: number | null;
  server_rtt_ns: number | null;
}

export interface DnsHealth {
  queries: number | null;
  failures: number | null;
}

export interface Status {
  version: string;
  source: string;
  hostname: string | null;
  started_ms: number;
  now_ms: number;
  totals: { packets: number; bytes: number; flows: number; active_flows: number; hosts: number };
  rates: { packets_per_s: number; bits_per_s: number; new_flows_per_s: number };
  tcp: TcpHealth;
  dns: DnsHealth;
  losses: Loss[];
  alerts: Alert[];
  file: boolean;
  packets_from: ("live" | "files" | "recorder")[];
}

export interface Series {
  name: string;
  bytes: (number | null)[];
  packets: (number | null)[];
}

export interface SeriesAnswer {
  step_ms: number;
  from_ms: number;
  to_ms: number;
  series: Series[];
}

export interface TopRow {
  key: string;
  name: string | null;
  name_source: string | null;
  bytes: number;
  packets: number;
  flows: number;
  bytes_in: number | null;
  bytes_out: number | null;
  error: number;
}

export interface HostRow extends TopRow {
  first_ms: number | null;
  last_ms: number | null;
  rtt_ns: number | null;
  retransmissions: number | null;
}

export interface TopAnswer {
  of: string;
  rows: TopRow[];
  others: { bytes: number; packets: number; flows: number };
}

export interface Flow {
  id: string;
  first_ms: number;
  last_ms: number;
  protocol: string;
  source: string;
  source_port: number | null;
  destination: string;
  destination_port: number | null;
  application: string | null;
  basis: string | null;
  name: string | null;
  name_source: string | null;
  packets: number;
  bytes: number;
  reverse_packets: number;
  reverse_bytes: number;
  rtt_ns: number | null;
  retransmissions: number | null;
  flags: string | null;
  vlan: number | null;
  ended: boolean;
  end_reason: string | null;
  source_process: FlowProcess | null;
  destination_process: FlowProcess | null;
}

/** The process at an end of a flow. */
export interface FlowProcess {
  key: string;
  pid: number;
  name: string | null;
  uid: number | null;
  container: string | null;
  cgroup: string | null;
}

export interface FlowsAnswer {
  total: number;
  offset: number;
  flows: Flow[];
}

export interface FirstBytes {
  time_ms: number;
  direction: string;
  length: number;
  hex: string;
  truncated: boolean;
}

export interface FlowAnswer {
  flow: Flow;
  fields: { name: string; value: string }[];
  first_bytes: FirstBytes[] | null;
}

export interface HostAnswer {
  address: string;
  name: string | null;
  name_source: string | null;
  mac: string | null;
  vendor: string | null;
  as: string | null;
  country: string | null;
  first_ms: number | null;
  last_ms: number | null;
  bytes_in: number;
  bytes_out: number;
  packets_in: number | null;
  packets_out: number | null;
  flows: number;
  active_flows: number;
  peers: TopRow[];
  applications: TopRow[];
  names: string[];
  tcp: TcpHealth | null;
  dns: DnsHealth | null;
  recent_flows: Flow[];
  /** Sent and received over time. */
  series: SeriesAnswer | null;
}

export interface MatrixAnswer {
  hosts: string[];
  names: (string | null)[];
  bytes: number[][];
}

export interface LossLayer {
  layer: string;
  packets: number | null;
  per_s: number | null;
  explanation: string;
  advice: string | null;
}

export interface LossesAnswer {
  layers: LossLayer[];
}

export interface CostAnswer {
  cpu_percent: number | null;
  memory_bytes: number | null;
  ns_per_packet: number | null;
  kernel_ns_per_packet: number | null;
  components: { name: string; ns: number }[];
}

/** An answer that says what was wrong. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly position: number | null,
  ) {
    super(message);
  }
}

const TOKEN = "ringtap-token";

/** Moves the token of an address such as `/#token=T` into this tab's storage. */
export function takeToken(): void {
  const found = /^#token=([\w-]+)$/.exec(location.hash);
  if (found?.[1]) {
    sessionStorage.setItem(TOKEN, found[1]);
    history.replaceState(null, "", location.pathname);
  }
}

export function setToken(token: string): void {
  sessionStorage.setItem(TOKEN, token);
}

type Parameters = Record<string, string | number | boolean | undefined>;

/** The address of a request, with its parameters. */
export function address(path: string, parameters: Parameters = {}): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== "") query.set(name, String(value));
  }
  const text = query.toString();
  return `api/v1/${path}${text ? `?${text}` : ""}`;
}

/** An address that the browser opens by itself, where no header can carry the token. */
export function addressWithToken(path: string, parameters: Parameters = {}): string {
  return address(path, { ...parameters, token: sessionStorage.getItem(TOKEN) ?? undefined });
}

export async function get<T>(path: string, parameters: Parameters = {}, signal?: AbortSignal): Promise<T> {
  const token = sessionStorage.getItem(TOKEN);
  const headers: Record<string, string> = token ? { Authorization: `Bearer ${token}` } : {};
  const answer = await fetch(address(path, parameters), { headers, ...(signal && { signal }) });
  if (!answer.ok) {
    const body: unknown = await answer.json().catch(() => null);
    const { error, position } = (body ?? {}) as { error?: string; position?: number };
    throw new ApiError(answer.status, error ?? `the server answered ${answer.status}`, position ?? null);
  }
  return (await answer.json()) as T;
}
