//! The queries that views make to the model.

use std::net::IpAddr;

use ringtap_flow::schema::Place;

use crate::api::{
    Alerts, Dns, Flow, FlowDetail, Flows, Host, HostRow, Hosts, Line, Loss, LossLayer, LossSeries,
    Losses, Matrix, Others, Series, Status, TcpHealth, Top, TopRow, Totals,
};
use crate::filter::FlowFilter;
use crate::heavy::{HeavyKey, Row, Sum};
use crate::history::OTHERS;
use crate::hosts::ListedHost;
use crate::label::ProtocolName;
use crate::model::{LAYERS, Look};
use crate::places::{HostPlace, SystemKey, shown, system_text};
use crate::processes;
use crate::rows;
use crate::top::{Tops, Window};

const MILLISECOND: u64 = 1_000_000;
const SECOND_MS: u64 = 1000;
/// Alerts in the status.
const NEWEST: usize = 20;
/// Rows of a host's lists.
const HOST_ROWS: usize = 20;
/// A host's flows that are shown.
const HOST_FLOWS: usize = 100;
/// Rows that are returned at most.
const MOST: usize = 1000;

/// Makes an enumeration whose values have words in queries.
macro_rules! words {
    (
        $(#[$attribute:meta])*
        $kind:ident {
            $($(#[$doc:meta])* $variant:ident $word:literal;)*
        }
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum $kind {
            $($(#[$doc])* $variant,)*
        }

        impl $kind {
            const WORDS: &[(&str, Self)] = &[$(($word, Self::$variant),)*];

            /// Returns the value of a word.
            #[must_use]
            pub fn parse(text: &str) -> Option<Self> {
                let known = Self::WORDS.iter().find(|(word, _)| *word == text);
                known.map(|(_, value)| *value)
            }
        }
    };
}

words! {
    /// The measure by which rows are sorted.
    Measure {
        /// Bytes.
        #[default]
        Bytes "bytes";
        /// Packets.
        Packets "packets";
        /// Flows.
        Flows "flows";
    }
}

impl Measure {
    fn of(self) -> fn(&Sum) -> u64 {
        match self {
            Self::Bytes => |sum| sum.bytes,
            Self::Packets => |sum| sum.packets,
            Self::Flows => |sum| sum.flows,
        }
    }
}

words! {
    /// The kind of the rows.
    Kind {
        /// Hosts.
        #[default]
        Hosts "hosts";
        /// Pairs of hosts.
        Pairs "pairs";
        /// Applications.
        Applications "applications";
        /// Protocols above IP.
        Protocols "protocols";
        /// Ports of responders, with their protocol.
        Ports "ports";
        /// VLANs.
        Vlans "vlans";
        /// Autonomous systems; none without a database of them.
        AutonomousSystems "as";
        /// Countries; none without a database of them.
        Countries "countries";
        /// Processes; none unless packets have some.
        Processes "processes";
    }
}

impl Kind {
    /// Returns the kind's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        let known = Self::WORDS.iter().find(|(_, kind)| *kind == self);
        known.map_or("", |(name, _)| name)
    }
}

words! {
    /// Which lines of traffic over time.
    Split {
        /// All traffic.
        #[default]
        Total "total";
        /// By protocol.
        Protocol "protocol";
        /// By application.
        Application "application";
    }
}

words! {
    /// By what flows are sorted.
    FlowSort {
        /// Bytes of both directions.
        #[default]
        Bytes "bytes";
        /// Packets of both directions.
        Packets "packets";
        /// The first packet.
        First "first";
        /// The last packet.
        Last "last";
        /// The time between them.
        Duration "duration";
        /// The round-trip time.
        Rtt "rtt";
    }
}

/// Which flows, and in which order.
#[derive(Clone, Debug)]
pub struct FlowQuery {
    /// Those that it accepts.
    pub filter: FlowFilter,
    /// By what they are sorted.
    pub sort: FlowSort,
    /// Whether the least is first.
    pub ascending: bool,
    /// The number of the first row.
    pub offset: usize,
    /// Rows at most.
    pub limit: usize,
    /// Whether flows that have ended are listed too.
    pub ended: bool,
}

impl Look {
    /// Returns what is going on now.
    #[must_use]
    pub fn status(&self) -> Status {
        let (clock, options) = (&self.clock, &self.options);
        let counters = &clock.tick.counters;
        Status {
            version: options.version,
            source: options.source.clone(),
            hostname: options.hostname.clone(),
            started_ms: clock.started_ns / MILLISECOND,
            now_ms: clock.now_ns / MILLISECOND,
            paused: false,
            totals: Totals {
                packets: counters.packets,
                bytes: counters.ip_bytes,
                flows: counters.flows,
                active_flows: counters.active,
                hosts: self.host_table.len() as u64,
                not_ip: counters.not_ip,
                malformed: counters.malformed,
            },
            rates: clock.rates,
            tcp: self.tcp_health(),
            dns: Dns {
                queries: options.has_names.then_some(self.sums.dns.0),
                failures: options.has_names.then_some(self.sums.dns.1),
            },
            losses: self.loss_list(),
            alerts: self.book.since(0, NEWEST),
            file: options.is_file,
            packets_from: options.packets_from.clone(),
            has_history: self.has_history,
            has_names: options.has_names,
            has_processes: options.has_processes,
        }
    }

    fn tcp_health(&self) -> TcpHealth {
        let (client_rtt_ns, server_rtt_ns) = self.sums.round_trips(self.clock.now_ns);
        TcpHealth {
            retransmissions: self.sums.retransmissions,
            out_of_order: self.sums.has_tcp.then_some(self.sums.out_of_order),
            zero_windows: self.sums.has_tcp.then_some(self.sums.zero_windows),
            resets: self.sums.resets,
            client_rtt_ns,
            server_rtt_ns,
        }
    }

    fn loss_list(&self) -> Vec<Loss> {
        let counts = LAYERS.into_iter().zip(self.losses.counts());
        let loss = |(layer, packets)| Loss { layer, packets };
        counts.map(loss).collect()
    }

    /// Returns traffic over time, in steps as fine as the span allows: of 1 s, 10 s or 5 minutes. Without
    /// a span it is the last 5 minutes.
    #[must_use]
    pub fn series(&self, split: Split, from_ms: Option<u64>, to_ms: Option<u64>) -> Series {
        let to_ms = to_ms.unwrap_or(self.clock.now_ns / MILLISECOND);
        let from_ms = from_ms.unwrap_or(to_ms.saturating_sub(299 * SECOND_MS));
        let nanos = |ms: u64| ms.saturating_mul(MILLISECOND);
        let lines = self
            .history
            .lines(split, nanos(from_ms.min(to_ms)), nanos(to_ms));
        let name = |class: u16| match split {
            Split::Total => "total".to_owned(),
            _ if class == OTHERS => "others".to_owned(),
            Split::Protocol => ProtocolName(u8::try_from(class).unwrap_or(u8::MAX)).to_string(),
            Split::Application => self.applications.name(class).to_owned(),
        };
        let line = |line: &crate::history::Line| {
            let known = |at: &usize| lines.known.contains(at);
            let steps = || 0..line.counts.len();
            Line {
                name: name(line.class),
                bytes: steps()
                    .map(|at| known(&at).then(|| line.counts[at].bytes))
                    .collect(),
                packets: steps()
                    .map(|at| known(&at).then(|| line.counts[at].packets))
                    .collect(),
            }
        };
        Series {
            step_ms: lines.step_ns / MILLISECOND,
            from_ms: lines.from_ns / MILLISECOND,
            to_ms: lines.to_ns / MILLISECOND,
            series: lines.lines.iter().map(line).collect(),
        }
    }

    /// Returns the rows with most traffic of a window.
    #[must_use]
    pub fn top(&self, kind: Kind, window: Window, measure: Measure, limit: usize) -> Top {
        let limit = limit.min(MOST);
        let by = (window, measure, limit);
        match kind {
            Kind::Hosts => self.rows(kind, &self.hosts, by, IpAddr::to_string),
            Kind::Pairs => self.rows(kind, &self.pairs, by, |(a, b)| format!("{a} {b}")),
            Kind::Applications => self.rows(kind, &self.by_application, by, |key| {
                self.applications.name(*key).to_owned()
            }),
            Kind::Protocols => self.rows(kind, &self.protocols, by, |key| {
                ProtocolName(u8::try_from(*key).unwrap_or(u8::MAX)).to_string()
            }),
            Kind::Ports => self.rows(kind, &self.ports, by, |(protocol, port)| {
                let protocol = ProtocolName(u8::try_from(*protocol).unwrap_or(u8::MAX));
                format!("{protocol}/{port}")
            }),
            Kind::Vlans => self.rows(kind, &self.vlans, by, u16::to_string),
            Kind::AutonomousSystems => {
                self.rows(kind, &self.places.systems, by, |key| key.0.to_string())
            }
            Kind::Countries => self.rows(kind, &self.places.countries, by, |key| key.text()),
            Kind::Processes => self.rows(kind, &self.processes.tops, by, processes::text),
        }
    }

    fn rows<K: HeavyKey>(
        &self,
        kind: Kind,
        tops: &Tops<K>,
        (window, measure, limit): (Window, Measure, usize),
        text: impl Fn(&K) -> String,
    ) -> Top {
        let (sums, from_ns) = tops.window(window);
        let top = sums.top(usize::MAX, measure.of());
        let (shown, others) = top.split_at(limit.min(top.len()));
        let row = |row: &Row<K>| {
            let row = top_row(text(&row.key), &row.sum, row.error);
            self.named_row(kind, row)
        };
        let mut rest = Others::default();
        for row in others {
            rest.bytes += row.sum.bytes;
            rest.packets += row.sum.packets;
            rest.flows += row.sum.flows;
        }
        Top {
            of: kind.name().to_owned(),
            from_ms: from_ns / MILLISECOND,
            rows: shown.iter().map(row).collect(),
            others: rest,
        }
    }

    /// Returns the rows with most traffic of the listed flows that a filter accepts.
    #[must_use]
    pub fn top_of_flows(
        &self,
        kind: Kind,
        filter: &FlowFilter,
        measure: Measure,
        limit: usize,
    ) -> Top {
        let accepted = self.flow_table.iter();
        let accepted = accepted.filter(|flow| filter.accepts(&flow.record));
        let place = |address| match self.host_table.get(address) {
            Some(host) => host.place,
            None => HostPlace::default(),
        };
        let mut rows = rows::sums(accepted, kind, &place);
        let rank = |row: &TopRow| match measure {
            Measure::Bytes => row.bytes,
            Measure::Packets => row.packets,
            Measure::Flows => row.flows,
        };
        rows.sort_by(|a, b| (rank(b), &a.key).cmp(&(rank(a), &b.key)));
        rows.truncate(limit.min(MOST));
        let named = |row| self.named_row(kind, row);
        rows = rows.into_iter().map(named).collect();
        Top {
            of: kind.name().to_owned(),
            from_ms: self.clock.started_ns / MILLISECOND,
            rows,
            others: Others::default(),
        }
    }

    /// Adds the name of what a row is about, where there are names.
    fn named_row(&self, kind: Kind, mut row: TopRow) -> TopRow {
        match kind {
            Kind::Hosts => self.named(row),
            Kind::AutonomousSystems => {
                let number = row.key.parse().ok().map(SystemKey);
                if let Some(name) = number.and_then(|number| self.places.name(number)) {
                    row.name = Some(name.to_owned());
                    row.name_source = Some("mmdb");
                }
                row
            }
            Kind::Processes => {
                row.name = self.processes.name_of(&row.key).map(str::to_owned);
                row
            }
            _ => row,
        }
    }

    /// Adds the name of the host that a row is about.
    fn named(&self, mut row: TopRow) -> TopRow {
        let host = row
            .key
            .parse()
            .ok()
            .and_then(|key: IpAddr| self.host_table.get(key));
        if let Some(host) = host {
            set_name(&mut row, host);
        }
        row
    }

    /// Returns the listed hosts whose address or name contains a text.
    #[must_use]
    pub fn host_list(&self, search: &str, measure: Measure, limit: usize) -> Hosts {
        let search = search.to_lowercase();
        let matches = |host: &&ListedHost| {
            search.is_empty()
                || host.address.to_string().contains(&search)
                || host
                    .names
                    .iter()
                    .any(|name| name.name.to_lowercase().contains(&search))
        };
        let mut hosts: Vec<&ListedHost> = self.host_table.iter().filter(matches).collect();
        hosts.sort_by_cached_key(|host| {
            std::cmp::Reverse(match measure {
                Measure::Bytes => host.bytes(),
                Measure::Packets => host.sent.0 + host.received.0,
                Measure::Flows => host.flows,
            })
        });
        Hosts {
            total: hosts.len() as u64,
            rows: hosts
                .into_iter()
                .take(limit.min(MOST))
                .map(host_row)
                .collect(),
        }
    }

    /// Returns a host in detail, with its traffic over a window; `None` if it is not listed.
    #[must_use]
    pub fn host(&self, address: IpAddr, window: Window) -> Option<Host> {
        let host = self.host_table.get(address)?;
        let mut flows: Vec<_> = self
            .flow_table
            .iter()
            .filter(|flow| [flow.record.key.source, flow.record.key.destination].contains(&address))
            .collect();
        let active = flows.iter().filter(|flow| flow.ended.is_none()).count();
        let mut applications = rows::sums(flows.iter().copied(), Kind::Applications, &|_| {
            HostPlace::default()
        });
        applications.sort_by(|a, b| (b.bytes, &a.key).cmp(&(a.bytes, &b.key)));
        flows.sort_by_key(|flow| std::cmp::Reverse(flow.last_ns()));
        let first = host.names.first();
        let atlas = self.atlas.as_ref();
        let place = atlas.map_or_else(Place::default, |atlas| atlas.place(address, host.mac));
        let dns = |count: u64| self.options.has_names.then_some(count);
        Some(Host {
            address: address.to_string(),
            name: first.map(|name| name.name.clone()),
            name_source: first.map(|name| name.source),
            mac: host.mac.map(rows::mac),
            vendor: place.vendor.map(shown),
            autonomous_system: place
                .as_number
                .map(|number| system_text(number, place.as_name)),
            country: place.country.map(shown),
            first_ms: host.first_ns / MILLISECOND,
            last_ms: host.last_ns / MILLISECOND,
            bytes_in: host.received.1,
            bytes_out: host.sent.1,
            packets_in: host.received.0,
            packets_out: host.sent.0,
            flows: host.flows,
            active_flows: active as u64,
            peers: self.peers(address),
            applications,
            names: host.names.iter().map(|name| name.name.clone()).collect(),
            tcp: TcpHealth {
                retransmissions: host.retransmissions,
                resets: host.resets,
                client_rtt_ns: host.rtt.get(),
                ..TcpHealth::default()
            },
            dns: Dns {
                queries: dns(host.dns.0),
                failures: dns(host.dns.1),
            },
            recent_flows: flows.into_iter().take(HOST_FLOWS).map(rows::flow).collect(),
            series: Some(host.steps.series(window, self.clock.now_ns)),
        })
    }

    fn peers(&self, address: IpAddr) -> Vec<TopRow> {
        let (sums, _) = self.pairs.window(Window::All);
        let mut peers: Vec<_> = sums
            .rows()
            .filter(|row| row.key.0 == address || row.key.1 == address)
            .collect();
        peers.sort_by_key(|row| std::cmp::Reverse(row.sum.bytes));
        let peer = |row: &Row<(IpAddr, IpAddr)>| {
            let mut sum = row.sum;
            let other = if row.key.0 == address {
                sum.sent = sum.bytes - sum.sent.min(sum.bytes);
                row.key.1
            } else {
                row.key.0
            };
            self.named(top_row(other.to_string(), &sum, row.error))
        };
        peers.iter().take(HOST_ROWS).map(peer).collect()
    }

    /// Returns the listed flows that a query asks for.
    #[must_use]
    pub fn flow_list(&self, query: &FlowQuery) -> Flows {
        let matches = |flow: &&crate::flows::ListedFlow| {
            (query.ended || flow.ended.is_none()) && query.filter.accepts(&flow.record)
        };
        let mut flows: Vec<_> = self.flow_table.iter().filter(matches).collect();
        flows.sort_by_cached_key(|flow| rows::rank(flow, query.sort));
        if !query.ascending {
            flows.reverse();
        }
        let shown = flows.iter().skip(query.offset).take(query.limit);
        Flows {
            total: flows.len() as u64,
            offset: query.offset as u64,
            unlisted: self.flow_table.unlisted(),
            flows: shown.map(|flow| rows::flow(flow)).collect::<Vec<Flow>>(),
        }
    }

    /// Returns a flow in detail, unless it has left the table.
    #[must_use]
    pub fn flow(&self, id: &str) -> Option<FlowDetail> {
        let id = u64::from_str_radix(id, 16).ok()?;
        let flow = self.flow_table.get(id)?;
        Some(FlowDetail {
            flow: rows::flow(flow),
            fields: rows::fields(flow, self.atlas.as_deref()),
            first_bytes: None,
        })
    }

    /// Returns the bytes between the hosts with most traffic, over the last 5 minutes.
    #[must_use]
    pub fn matrix(&self, limit: usize) -> Matrix {
        let limit = limit.clamp(1, 100);
        let measure = |sum: &Sum| sum.bytes;
        let (hosts, _) = self.hosts.top(Window::Minutes, limit, measure);
        let hosts: Vec<IpAddr> = hosts.iter().map(|row| row.key).collect();
        let mut bytes = vec![vec![0; hosts.len()]; hosts.len()];
        let at = |host: IpAddr| hosts.iter().position(|&one| one == host);
        let (pairs, _) = self.pairs.window(Window::Minutes);
        for row in pairs.rows() {
            if let (Some(a), Some(b)) = (at(row.key.0), at(row.key.1)) {
                bytes[a][b] += row.sum.sent;
                if a != b {
                    bytes[b][a] += row.sum.bytes.saturating_sub(row.sum.sent);
                }
            }
        }
        let name = |host: &IpAddr| {
            let host = self.host_table.get(*host);
            host.and_then(|host| host.names.first().map(|name| name.name.clone()))
        };
        Matrix {
            names: hosts.iter().map(name).collect(),
            hosts: hosts.iter().map(IpAddr::to_string).collect(),
            bytes,
        }
    }

    /// Returns losses by layer.
    #[must_use]
    pub fn losses(&self) -> Losses {
        let now_ns = self.clock.now_ns;
        let from_ns = now_ns.saturating_sub(299 * SECOND_MS * MILLISECOND);
        let lines = self.history.lines(Split::Total, from_ns, now_ns);
        let counts = self.losses.counts();
        let layer = |(at, &layer): (usize, &&'static str)| {
            let (explanation, advice) = EXPLANATIONS[at];
            LossLayer {
                layer,
                packets: counts[at],
                per_s: self.losses.rates[at],
                explanation,
                advice,
            }
        };
        Losses {
            layers: LAYERS.iter().enumerate().map(layer).collect(),
            series: LossSeries {
                step_ms: lines.step_ns / MILLISECOND,
                from_ms: lines.from_ns / MILLISECOND,
                dropped: lines.lost,
            },
        }
    }

    /// Returns the alerts after the number `since`, the newest first.
    #[must_use]
    pub fn alerts(&self, since: u64) -> Alerts {
        Alerts {
            alerts: self.book.since(since, MOST),
        }
    }
}

/// The meaning of each layer of losses, and advice against them, in the order of the layers.
const EXPLANATIONS: [(&str, &str); 6] = [
    (
        "The network adapter or its driver dropped these packets before the kernel saw them.",
        "Enlarge the adapter's receive ring (ethtool -G), or spread its queues over more processors.",
    ),
    (
        "Another program on the interface took these packets before the capture saw them.",
        "Capture at an earlier hook, such as xdp:DEV.",
    ),
    (
        "The program at the hook could not process these packets.",
        "See ringtap web --explain-capture.",
    ),
    (
        "The ring between the kernel and the capture was full.",
        "Enlarge the ring with --buffer, or capture fewer bytes with -s.",
    ),
    (
        "Sampling left out these packets, as asked.",
        "This is no loss; leave out --sample to count every packet.",
    ),
    (
        "The meter counted these flow updates, but the views did not receive them: their queue was full. Totals are exact; lists and charts lack them.",
        "Reduce the load on the processors, or filter the traffic.",
    ),
];

fn top_row(key: String, sum: &Sum, error: u64) -> TopRow {
    TopRow {
        key,
        name: None,
        name_source: None,
        bytes: sum.bytes,
        packets: sum.packets,
        flows: sum.flows,
        bytes_in: sum.bytes.saturating_sub(sum.sent),
        bytes_out: sum.sent,
        error,
    }
}

fn set_name(row: &mut TopRow, host: &ListedHost) {
    if let Some(name) = host.names.first() {
        row.name = Some(name.name.clone());
        row.name_source = Some(name.source);
    }
}

fn host_row(host: &ListedHost) -> HostRow {
    let sum = Sum {
        bytes: host.bytes(),
        packets: host.sent.0 + host.received.0,
        sent: host.sent.1,
        flows: host.flows,
    };
    let mut row = top_row(host.address.to_string(), &sum, 0);
    set_name(&mut row, host);
    HostRow {
        row,
        first_ms: host.first_ns / MILLISECOND,
        last_ms: host.last_ns / MILLISECOND,
        rtt_ns: host.rtt.get(),
        retransmissions: host.retransmissions,
        alerts: host.alerts,
    }
}
