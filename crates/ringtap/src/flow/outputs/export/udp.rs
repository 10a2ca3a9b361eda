//! A collector that is reached by UDP. Sending does not wait, unless records come from a file.

use std::io::{self, ErrorKind};
use std::net::UdpSocket;

use ringtap_flow::export::Message;

use super::super::report::ExportReport;
use super::{Collector, CollectorError, Patience};
use crate::notice::notice;

/// A connected socket, and what became of what it was given.
pub(super) struct UdpCollector {
    socket: UdpSocket,
    report: ExportReport,
    /// The message sent last: what an error that is told later belongs to.
    last: Sent,
    /// The kind of failure that was told last: each is told once, until another comes.
    told: Option<ErrorKind>,
    /// The last answer was that nobody listened.
    refused: bool,
    /// Somebody listens again, who knows no templates.
    came_back: bool,
}

#[derive(Clone, Copy, Default)]
struct Sent {
    bytes: u64,
    flows: u64,
}

impl UdpCollector {
    pub(super) fn open(collector: &Collector, patience: Patience) -> Result<Self, CollectorError> {
        let address = collector.address()?;
        let any = if address.is_ipv4() {
            "0.0.0.0:0"
        } else {
            "[::]:0"
        };
        let socket =
            UdpSocket::bind(any).map_err(|error| collector.socket_error("make a socket", error))?;
        let nonblocking = patience == Patience::Lose;
        let connected = socket
            .connect(address)
            .and_then(|()| socket.set_nonblocking(nonblocking));
        connected.map_err(|error| collector.socket_error("connect", error))?;
        Ok(Self {
            socket,
            report: ExportReport {
                collector: collector.to_string(),
                ..ExportReport::default()
            },
            last: Sent::default(),
            told: None,
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
            // The host told that nobody listened to the message before; this one was not sent.
            let error = io::Error::from(error.kind());
            self.lose_last(&error);
            sent = self.socket.send(message.bytes);
        }
        // No answer came to the message before: it was taken.
        self.came_back |= was_refused && !self.refused && sent.is_ok();
        let this = Sent {
            bytes: message.bytes.len() as u64,
            flows: message.flows.into(),
        };
        match sent {
            Ok(_) => {
                self.report.messages += 1;
                self.report.bytes += this.bytes;
                self.report.flows += this.flows;
                self.last = this;
            }
            Err(error) => {
                self.tell(&error);
                self.report.lost_messages += 1;
                self.report.lost_flows += this.flows;
                self.last = Sent::default();
            }
        }
    }

    /// Whether somebody listens again, since this was asked last.
    pub(super) fn came_back(&mut self) -> bool {
        std::mem::take(&mut self.came_back)
    }

    /// Learns what became of the last message, as far as that is known.
    pub(super) fn settle(&mut self) {
        if let Ok(Some(error)) = self.socket.take_error() {
            self.lose_last(&error);
        }
    }

    fn lose_last(&mut self, error: &io::Error) {
        self.tell(error);
        let last = std::mem::take(&mut self.last);
        if last.bytes > 0 {
            self.report.messages -= 1;
            self.report.bytes -= last.bytes;
            self.report.flows -= last.flows;
            self.report.lost_messages += 1;
            self.report.lost_flows += last.flows;
        }
    }

    fn tell(&mut self, error: &io::Error) {
        if self.told.replace(error.kind()) != Some(error.kind()) {
            notice(format_args!(
                "{}: {error}; what is lost is counted",
                self.report.collector
            ));
        }
    }

    pub(super) fn report(&self) -> ExportReport {
        self.report.clone()
    }
}
