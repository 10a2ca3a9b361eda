//! Sends to a UDP collector. Sending does not wait, unless records come from a file.
//!
//! Messages of one length go to the system together. Where it cannot cut them into datagrams, each is sent
//! by itself.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;

use ringtap_flow::export::{Message, MessageSink};
use ringtap_sys::udp;

use super::Teller;
use super::batch::{Batch, Sums};
use crate::{CollectorAddress, ExportReport, OutputError, OutputOptions};

/// All collectors, and the messages that wait for them.
#[derive(Default)]
pub(super) struct Collectors {
    pub(super) all: Vec<UdpCollector>,
    batch: Batch,
}

impl Collectors {
    /// Sends the messages that wait.
    pub(super) fn send_waiting(&mut self) {
        if !self.batch.is_empty() {
            for collector in &mut self.all {
                collector.send(&self.batch);
            }
            self.batch.clear();
        }
    }

    /// Returns whether a collector listens again, since the last call.
    pub(super) fn came_back(&mut self) -> bool {
        let came_back = |any, one: &mut UdpCollector| std::mem::take(&mut one.came_back) || any;
        self.all.iter_mut().fold(false, came_back)
    }

    /// Sends the messages that wait, and updates the counters of the last ones, as far as their fate is known.
    pub(super) fn settle(&mut self) {
        self.send_waiting();
        for collector in &mut self.all {
            collector.settle();
        }
    }

    /// Returns the counters of each collector.
    pub(super) fn reports(&self) -> impl Iterator<Item = ExportReport> {
        self.all.iter().map(|collector| collector.report.clone())
    }
}

impl MessageSink for Collectors {
    /// Takes a message, which waits until [`Collectors::send_waiting`] or until it cannot be sent together
    /// with the next one.
    fn message(&mut self, message: Message<'_>) {
        if !self.batch.fits(&message) {
            self.send_waiting();
        }
        self.batch.push(&message);
    }
}

/// A connected socket, and the counters of its messages.
pub(super) struct UdpCollector {
    socket: UdpSocket,
    report: ExportReport,
    /// The last messages that were sent together: an error that is reported later belongs to them.
    last: Option<Sums>,
    /// Whether the system cuts a batch into datagrams.
    cuts: bool,
    teller: Teller,
    /// The last error was that nothing listens on the port.
    refused: bool,
    /// A collector listens again, without templates.
    came_back: bool,
}

impl UdpCollector {
    pub(super) fn open(
        collector: &CollectorAddress,
        options: &OutputOptions,
    ) -> Result<Self, OutputError> {
        let address = collector.0.resolve()?;
        let any = if address.is_ipv4() {
            "0.0.0.0:0"
        } else {
            "[::]:0"
        };
        let socket = UdpSocket::bind(any).map_err(collector.0.failed("make a socket"))?;
        let connected = socket.connect(address);
        connected
            .and_then(|()| socket.set_nonblocking(!options.wait))
            .map_err(collector.0.failed("connect"))?;
        Ok(Self {
            cuts: udp::can_cut(&socket),
            socket,
            report: ExportReport {
                collector: collector.to_string(),
                ..ExportReport::default()
            },
            last: None,
            teller: Teller::new(collector, options),
            refused: false,
            came_back: false,
        })
    }

    /// Sends a batch: at once if possible, otherwise message by message.
    fn send(&mut self, batch: &Batch) {
        if batch.sums.messages > 1 && self.cuts {
            let send = |socket: &_| udp::send_cut(socket, &batch.bytes, batch.length);
            match self.attempt(batch.sums, send) {
                Ok(()) => return,
                Err(error) => self.cuts = is_passing(&error),
            }
        }
        for (bytes, sums) in batch.messages() {
            let sent = self.attempt(sums, |socket| socket.send(bytes).map(|_| ()));
            if let Err(error) = sent {
                self.report.count(sums, false);
                self.teller.failed(&error, "");
            }
        }
    }

    /// Sends messages together, and counts them if they were sent.
    fn attempt(
        &mut self,
        sums: Sums,
        send: impl Fn(&UdpSocket) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut sent = send(&self.socket);
        let was_refused = std::mem::replace(&mut self.refused, false);
        if let Err(error) = &sent
            && error.kind() == ErrorKind::ConnectionRefused
        {
            self.refused = true;
            // The host reported that nothing listened for the previous messages; these were not sent.
            let error = io::Error::from(error.kind());
            self.lose_last(&error);
            sent = send(&self.socket);
        }
        // No error came for the previous messages: they were taken.
        self.came_back |= was_refused && !self.refused && sent.is_ok();
        self.last = sent.is_ok().then_some(sums);
        if sent.is_ok() {
            self.report.count(sums, true);
        }
        sent
    }

    /// Updates the counters of the last messages, as far as their fate is known.
    fn settle(&mut self) {
        if let Ok(Some(error)) = self.socket.take_error() {
            self.lose_last(&error);
        }
    }

    fn lose_last(&mut self, error: &io::Error) {
        self.teller.failed(error, "");
        if let Some(lost) = self.last.take() {
            self.report.take_back(lost);
        }
    }
}

/// Returns whether an error may be over with the next batch. Others mean that the route or its interface
/// does not cut, or that a message is longer than what it carries in one piece.
fn is_passing(error: &io::Error) -> bool {
    use ErrorKind as K;
    matches!(
        error.kind(),
        K::ConnectionRefused | K::HostUnreachable | K::NetworkUnreachable | K::NetworkDown
    ) || udp::has_no_room(error)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ringtap_flow::export::{Encoder, ExportOptions, Version};
    use ringtap_flow::schema::Row;
    use ringtap_flow::{FlowKey, FlowRecord};

    use super::*;

    const RECORDS: u32 = 3000;

    /// Sends records of several lengths to an address, and returns the counters.
    fn export(address: &str, cuts: bool) -> ExportReport {
        let mut collectors = Collectors::default();
        let options = OutputOptions {
            wait: true,
            ..OutputOptions::default()
        };
        let collector = address.parse().expect("an address");
        let collector = UdpCollector::open(&collector, &options).expect("a socket");
        collectors.all.push(collector);
        assert!(collectors.all[0].cuts, "the kernel cuts");
        collectors.all[0].cuts = cuts;
        let options = ExportOptions::default().version(Version::V9);
        let mut encoder = Encoder::new(options).expect("valid options");
        let mut send = |message: Message<'_>| collectors.message(message);
        for number in 0..RECORDS {
            // Each tenth record has another template, and with it another length.
            let source = if number % 10 == 0 {
                std::net::Ipv6Addr::from_bits(number.into()).into()
            } else {
                std::net::Ipv4Addr::from_bits(number).into()
            };
            let record = FlowRecord {
                key: FlowKey {
                    source,
                    destination: source,
                    ..FlowKey::default()
                },
                ..FlowRecord::default()
            };
            encoder.row(&Row::new(&record), &mut send);
        }
        encoder.finish(&mut send);
        collectors.settle();
        assert_eq!(collectors.all[0].cuts, cuts);
        let mut reports = collectors.reports();
        reports.next().expect("a collector")
    }

    /// Returns the datagrams that a collector gets.
    fn collect(cuts: bool) -> Vec<Vec<u8>> {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
        udp::set_receive_buffer(&socket, 8 << 20).expect("a socket");
        let address = socket.local_addr().expect("bound");
        let report = export(&format!("udp:{address}"), cuts);
        assert_eq!((report.lost_messages, report.lost_flows), (0, 0));
        assert_eq!(report.flows, u64::from(RECORDS));
        let longest = Duration::from_secs(10);
        socket.set_read_timeout(Some(longest)).expect("a time");
        let mut datagram = [0; 2000];
        let datagrams: Vec<Vec<u8>> = (0..report.messages)
            .map(|_| {
                let length = socket.recv(&mut datagram).expect("a datagram");
                datagram[..length].to_vec()
            })
            .collect();
        socket.set_nonblocking(true).expect("a socket");
        assert!(socket.recv(&mut datagram).is_err(), "no more came");
        let bytes: usize = datagrams.iter().map(Vec::len).sum();
        assert_eq!(report.bytes, bytes as u64);
        datagrams
    }

    #[test]
    fn datagrams_are_the_same_however_they_are_sent() {
        let together = collect(true);
        assert!(together.len() > 100, "{}", together.len());
        for (sequence, datagram) in (0_u32..).zip(&together) {
            assert_eq!(datagram[12..16], sequence.to_be_bytes());
        }
        let one_by_one = collect(false);
        // The headers have the time of sending, or none.
        assert!(together == one_by_one);
    }

    #[test]
    fn refused_messages_are_counted_as_lost() {
        for cuts in [true, false] {
            // Nothing listens where a socket was closed just now.
            let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback");
            let address = socket.local_addr().expect("bound");
            drop(socket);
            let report = export(&format!("udp:{address}"), cuts);
            assert_eq!(report.flows + report.lost_flows, u64::from(RECORDS));
            // The host's answer to a message comes at once, or a little later.
            assert!(report.lost_flows > u64::from(RECORDS) / 4, "{report:?}");
        }
    }
}
