//! `ringtap flow --collect`: records of other exporters instead of packets.
//!
//! Data in: datagrams of NetFlow v5, v9 and IPFIX, from anybody. Data out: their records, to the same
//! outputs as those that are metered here. What a datagram means is found out by a library
//! ([`decode`]); here are the socket and the counters.

mod allow;
mod decode;
mod exporters;
mod fields;
mod record;
mod summary;

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use ringtap_flow::{FlowRecord, Sampling};
use ringtap_sys::udp;

pub(crate) use self::allow::Network;
use self::decode::Decoder;
use self::summary::Summary;
use super::FlowError;
use super::outputs::{Origin, Outputs, Setting};
use super::talkers::Talkers;
use crate::cli::FlowArgs;
use crate::notice::{notice, raw};
use crate::rights::{Needs, Rights};
use crate::setup::setup;
use crate::signals::Requests;

/// The longest datagram of UDP.
const DATAGRAM: usize = 65_535;
/// Memory for datagrams that wait, asked of the system; it may give less.
const RECEIVE_BUFFER: usize = 8 << 20;
/// How often signals and the clock are looked at while nothing comes.
const TICK: Duration = Duration::from_millis(200);
/// Exporters that a report lists at most.
const LISTED: usize = 100;
/// How long datagrams are taken after the end was asked for, where exporters go on.
const REST: Duration = Duration::from_secs(1);

/// Where to collect: `udp:HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listen(String);

/// Why collecting cannot begin.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CollectError {
    #[error("expected udp:HOST:PORT, such as udp:127.0.0.1:2055 or udp:[::]:4739")]
    Name,
    #[error("{listen}: cannot {what}: {source}")]
    Socket {
        listen: String,
        what: &'static str,
        r#source: io::Error,
    },
}

impl FromStr for Listen {
    type Err = CollectError;

    fn from_str(text: &str) -> Result<Self, CollectError> {
        let host = text.strip_prefix("udp:").ok_or(CollectError::Name)?;
        let (name, port) = host.rsplit_once(':').ok_or(CollectError::Name)?;
        let ambiguous = name.contains(':') && !(name.starts_with('[') && name.ends_with(']'));
        if name.is_empty() || ambiguous || port.parse::<u16>().is_err() {
            return Err(CollectError::Name);
        }
        Ok(Self(host.to_owned()))
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "udp:{}", self.0)
    }
}

impl Listen {
    fn open(&self) -> Result<UdpSocket, CollectError> {
        let failed = |what| {
            move |source| CollectError::Socket {
                listen: self.to_string(),
                what,
                source,
            }
        };
        let mut addresses = self
            .0
            .to_socket_addrs()
            .map_err(failed("find the address"))?;
        let none = || io::Error::new(ErrorKind::NotFound, "it has no address");
        let address = addresses
            .next()
            .ok_or_else(|| failed("find the address")(none()))?;
        let socket = UdpSocket::bind(address).map_err(failed("listen"))?;
        let timed = socket.set_read_timeout(Some(TICK));
        timed.map_err(failed("set a time-out"))?;
        // Less memory means losses earlier, which are counted.
        let _ = udp::set_receive_buffer(&socket, RECEIVE_BUFFER);
        Ok(socket)
    }
}

/// Collects until it is told to end.
pub(crate) fn run(args: &FlowArgs, listen: &Listen, rights: &Rights) -> Result<(), FlowError> {
    let socket = listen.open()?;
    let local = socket
        .local_addr()
        .map_err(|source| setup("read the socket's address", source))?;
    let needs = Needs {
        network: !args.records.export.is_empty(),
        ..Needs::default()
    };
    rights.relinquish(&[], needs)?;
    let setting = Setting {
        sampling: Sampling {
            one_in: NonZeroU32::MIN,
            ..Sampling::default()
        },
        active: Duration::ZERO,
        inactive: Duration::ZERO,
        can_wait: false,
        has_tables: super::probe::talkers(args).is_some(),
    };
    let mut outputs = Outputs::open(&args.records, setting)?;
    let requests = Requests::default();
    let watched = requests.watch(Vec::new());
    watched.map_err(|source| setup("watch for signals", source))?;
    outputs.begin()?;
    notice(format_args!("collecting on udp:{local}"));
    let mut collection = Collection {
        decoder: Decoder::default(),
        allowed: &args.allow,
        not_allowed: 0,
        sinks: Sinks {
            outputs,
            talkers: super::probe::talkers(args),
        },
        reports: args
            .report
            .interval
            .map(|interval| (interval, Instant::now())),
        local,
        started: Instant::now(),
        json: args.report.json_stats,
    };
    let result = collection.receive(&socket, &requests);
    let tables = super::probe::print_tables(collection.sinks.talkers.as_mut());
    let finished = collection.sinks.outputs.finish();
    collection.summarise();
    result.and(tables).and(finished.map_err(FlowError::from))
}

struct Collection<'a> {
    decoder: Decoder,
    /// Whose datagrams are taken; everybody's where the list is empty.
    allowed: &'a [Network],
    not_allowed: u64,
    sinks: Sinks,
    reports: Option<(Duration, Instant)>,
    /// The address that datagrams are sent to.
    local: SocketAddr,
    started: Instant,
    json: bool,
}

struct Sinks {
    outputs: Outputs,
    talkers: Option<Talkers>,
}

impl Sinks {
    fn take(&mut self, record: &FlowRecord, origin: &Origin) {
        self.outputs.collected(record, origin);
        if let Some(talkers) = &mut self.talkers {
            talkers.count(record);
        }
    }
}

impl Collection<'_> {
    fn receive(&mut self, socket: &UdpSocket, requests: &Requests) -> Result<(), FlowError> {
        let mut datagram = vec![0; DATAGRAM];
        let mut last_tick = Instant::now();
        while !requests.stop() {
            match socket.recv_from(&mut datagram) {
                Ok((length, from)) => self.datagram(from, &datagram[..length]),
                Err(error) if is_idle(&error) => {}
                Err(source) => return Err(setup("receive", source).into()),
            }
            if last_tick.elapsed() >= TICK {
                last_tick = Instant::now();
                self.tick()?;
                if requests.take_report() {
                    self.summarise();
                }
            }
        }
        // What came before the end was asked for is taken too.
        let _ = socket.set_nonblocking(true);
        let asked = Instant::now();
        while let Ok((length, from)) = socket.recv_from(&mut datagram)
            && asked.elapsed() < REST
        {
            self.datagram(from, &datagram[..length]);
        }
        Ok(())
    }

    fn datagram(&mut self, from: SocketAddr, bytes: &[u8]) {
        let allows = |network: &Network| network.contains(from.ip());
        if !self.allowed.is_empty() && !self.allowed.iter().any(allows) {
            self.not_allowed += 1;
            return;
        }
        let sinks = &mut self.sinks;
        let mut take = |record: &FlowRecord, origin: &Origin| sinks.take(record, origin);
        self.decoder
            .datagram(from, bytes, Instant::now(), &mut take);
    }

    /// Tells what came and what was lost so far.
    fn summarise(&self) {
        let (known, exporters) = self.decoder.exporters(LISTED);
        let summary = Summary {
            known,
            exporters,
            not_allowed: self.not_allowed,
            elapsed: self.started.elapsed(),
            counters: self.decoder.counters(),
            dropped: udp_drops(self.local),
            outputs: self.sinks.outputs.report(),
        };
        raw(summary.text(self.json));
    }

    fn tick(&mut self) -> Result<(), FlowError> {
        self.sinks.outputs.advance(now_ns())?;
        if let Some((interval, last)) = &mut self.reports
            && last.elapsed() >= *interval
        {
            *last = Instant::now();
            super::probe::print_tables(self.sinks.talkers.as_mut())?;
        }
        Ok(())
    }
}

/// Whether nothing has come, or a signal has.
fn is_idle(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(u64::MAX)
}

/// Datagrams that the kernel dropped for want of room in the socket: the last column of
/// `/proc/net/udp`, in the line of the local port.
fn udp_drops(local: SocketAddr) -> Option<u64> {
    let table = if local.is_ipv4() {
        "/proc/thread-self/net/udp"
    } else {
        "/proc/thread-self/net/udp6"
    };
    let text = std::fs::read_to_string(table).ok()?;
    let port = format!(":{:04X}", local.port());
    let lines = text.lines().skip(1);
    let mut ours = lines.filter(|line| {
        let address = line.split_whitespace().nth(1);
        address.is_some_and(|address| address.ends_with(&port))
    });
    ours.next()?.split_whitespace().last()?.parse().ok()
}
