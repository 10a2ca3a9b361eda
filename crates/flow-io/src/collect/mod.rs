//! The collector's socket: datagrams go in, flow records come out.

mod application;
mod decode;
mod exporters;
mod fields;
mod network;
mod process;
mod record;
mod sflow;

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use ringtap_flow::FlowRecord;
use ringtap_flow::export::Enterprise;
pub use ringtap_flow::schema::Origin;
use ringtap_sys::udp;
use serde::Serialize;

use crate::{ListenAddress, OutputError};
use decode::Take;
pub use decode::{CollectCounters, Decoder};
pub use exporters::{ExporterCounters, ExporterReport};
pub use network::{Network, NetworkError};

/// The longest UDP datagram.
const DATAGRAM: usize = 65_535;
/// The socket buffer that is requested from the system, which may grant less.
const RECEIVE_BUFFER: usize = 8 << 20;

/// Receives messages of NetFlow v5, v9, IPFIX and sFlow v5 over UDP, from anybody or from some networks.
pub struct Collector {
    /// The address on which it listens, as it was specified.
    name: ListenAddress,
    socket: UdpSocket,
    local: SocketAddr,
    /// The allowed networks. If the list is empty, all datagrams are accepted.
    allowed: Vec<Network>,
    not_allowed: u64,
    decoder: Decoder,
    datagram: Vec<u8>,
}

/// The counters of a [`Collector`]: received and lost.
#[derive(Clone, Debug, Serialize)]
pub struct CollectReport {
    /// Totals over all exporters.
    #[serde(flatten)]
    pub counters: CollectCounters,
    /// Datagrams from addresses outside the allowed networks.
    pub not_allowed: u64,
    /// The number of exporters that are remembered.
    pub known_exporters: usize,
    /// A part of these exporters.
    pub exporters: Vec<ExporterReport>,
    /// Datagrams that the kernel dropped because the socket was full, if known.
    pub dropped: Option<u64>,
}

impl Collector {
    /// Opens a socket that accepts datagrams from the allowed networks, or from all networks if there are
    /// none. [`Collector::receive`] waits for at most `wait`.
    ///
    /// # Errors
    /// The address cannot be found, or the socket cannot be bound to it.
    pub fn bind(
        address: &ListenAddress,
        allowed: &[Network],
        wait: Duration,
    ) -> Result<Self, OutputError> {
        let failed = |what| address.0.failed(what);
        let socket = UdpSocket::bind(address.0.resolve()?).map_err(failed("listen"))?;
        let timed = socket.set_read_timeout(Some(wait));
        timed.map_err(failed("set a timeout"))?;
        // With less memory, losses start earlier; they are counted.
        let _ = udp::set_receive_buffer(&socket, RECEIVE_BUFFER);
        let local = socket.local_addr();
        Ok(Self {
            name: address.clone(),
            local: local.map_err(failed("read the socket's address"))?,
            socket,
            allowed: allowed.to_vec(),
            not_allowed: 0,
            decoder: Decoder::default(),
            datagram: vec![0; DATAGRAM],
        })
    }

    /// Takes this enterprise's elements for ringtap's own, besides those of the default number.
    #[must_use]
    pub fn with_enterprise(mut self, enterprise: Enterprise) -> Self {
        self.decoder.set_enterprise(enterprise);
        self
    }

    /// Returns the address of the socket.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Waits for a datagram, and gives its records to `take`.
    ///
    /// # Errors
    /// The socket failed.
    pub fn receive(
        &mut self,
        take: &mut dyn FnMut(&FlowRecord, &Origin),
    ) -> Result<(), OutputError> {
        use ErrorKind::{Interrupted, TimedOut, WouldBlock};
        match self.take_one(take) {
            Err(error) if !matches!(error.kind(), WouldBlock | TimedOut | Interrupted) => {
                Err(self.name.0.failed("receive")(error))
            }
            _ => Ok(()),
        }
    }

    /// Takes the datagrams that wait in the socket, for at most `longest`, since exporters may continue to
    /// send.
    pub fn drain(&mut self, longest: Duration, take: &mut dyn FnMut(&FlowRecord, &Origin)) {
        let _ = self.socket.set_nonblocking(true);
        let begun = Instant::now();
        while self.take_one(take).is_ok() && begun.elapsed() < longest {}
        let _ = self.socket.set_nonblocking(false);
    }

    fn take_one(&mut self, take: &mut Take<'_>) -> io::Result<()> {
        let (length, from) = self.socket.recv_from(&mut self.datagram)?;
        let allows = |network: &Network| network.contains(from.ip());
        if self.allowed.is_empty() || self.allowed.iter().any(allows) {
            let datagram = &self.datagram[..length];
            self.decoder.datagram(from, datagram, Instant::now(), take);
        } else {
            self.not_allowed += 1;
        }
        Ok(())
    }

    /// Returns the counters so far, and a list of at most this many exporters: those that lost most entries
    /// first, then those that sent most.
    pub fn report(&self, listed: usize) -> CollectReport {
        let (known_exporters, exporters) = self.decoder.exporters(listed);
        CollectReport {
            counters: self.decoder.counters(),
            not_allowed: self.not_allowed,
            known_exporters,
            exporters,
            dropped: udp_drops(self.local),
        }
    }
}

/// Returns the datagrams that the kernel dropped because the socket was full: the last column of
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
