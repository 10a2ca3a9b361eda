//! Sends to a UDP collector. Sending does not wait, unless records come from a file.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;

use ringtap_flow::export::Message;

use super::Teller;
use crate::{CollectorAddress, ExportReport, OutputError, OutputOptions};

/// A connected socket, and the counters of its messages.
pub(super) struct UdpCollector {
    socket: UdpSocket,
    report: ExportReport,
    /// Bytes and records of the last message: an error that is reported later belongs to it.
    last: Option<(u64, u64)>,
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

    pub(super) fn send(&mut self, message: &Message<'_>) {
        let mut sent = self.socket.send(message.bytes);
        let was_refused = std::mem::replace(&mut self.refused, false);
        if let Err(error) = &sent
            && error.kind() == ErrorKind::ConnectionRefused
        {
            self.refused = true;
            // The host reported that nothing listened for the previous message; this one was not sent.
            let error = io::Error::from(error.kind());
            self.lose_last(&error);
            sent = self.socket.send(message.bytes);
        }
        // No error came for the previous message: it was taken.
        self.came_back |= was_refused && !self.refused && sent.is_ok();
        self.report.count(message, sent.is_ok());
        let this = (message.bytes.len() as u64, message.flows.into());
        self.last = sent.is_ok().then_some(this);
        if let Err(error) = sent {
            self.teller.failed(&error, "");
        }
    }

    /// Returns whether a collector listens again, since the last call.
    pub(super) fn came_back(&mut self) -> bool {
        std::mem::take(&mut self.came_back)
    }

    /// Updates the counters of the last message, as far as its fate is known.
    pub(super) fn settle(&mut self) {
        if let Ok(Some(error)) = self.socket.take_error() {
            self.lose_last(&error);
        }
    }

    fn lose_last(&mut self, error: &io::Error) {
        self.teller.failed(error, "");
        if let Some((bytes, flows)) = self.last.take() {
            self.report.messages -= 1;
            self.report.bytes -= bytes;
            self.report.flows -= flows;
            self.report.lost_messages += 1;
            self.report.lost_flows += flows;
        }
    }

    pub(super) fn report(&self) -> ExportReport {
        self.report.clone()
    }
}
