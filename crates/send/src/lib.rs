#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod back_end;
mod choice;
mod departure;
mod error;
mod frames;
mod generate;
mod live;
mod pace;
mod packet;
mod queue;
mod report;
mod run;
mod segments;
mod template;
mod xsk;

pub use back_end::BackEndKind;
pub use departure::Departures;
pub use error::{Rejection, Result, SendError};
pub use generate::{Arrivals, Generation};
pub use pace::Lateness;
pub use queue::{Outgoing, QueueFull, Queued, RECORD_BYTES, SendQueue};
pub use report::{Rejected, Report};
pub use ringtap_capture::system;
pub use ringtap_sys::packet::SendStamps;
pub use run::{Progress, SendRun};
pub use template::{
    MOST_FLOWS, MOST_SIZES, Marked, SMALLEST, SMALLEST_V6, Template, TemplateOptions, read_mark,
};

use std::time::Duration;

use back_end::{BACK_ENDS, BackEnd, Refused};
use ringtap_capture::hook::{StealHazard, steal_hazards};
use ringtap_packet::{LinkType, Timestamp};
use ringtap_sys::eventfd::Waker;
use ringtap_sys::netlink::{self, Netlink};
use ringtap_sys::privileges::Capability;

/// When packets are sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Timing {
    /// As fast as they are accepted.
    TopSpeed,
    /// By the differences of their timestamps, faster by this factor.
    Recorded {
        /// 2.0 sends in half the time.
        multiplier: f64,
    },
    /// Evenly, at a rate of packets.
    Packets {
        /// Packets per second.
        per_second: f64,
    },
    /// At a rate of bits of frames (without preamble, checksum and gap).
    Bits {
        /// Bits per second.
        per_second: f64,
    },
}

/// How to handle a frame that the interface never accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRejected {
    /// Count it, and continue with the next.
    #[default]
    Skip,
    /// Stop with an error.
    Stop,
}

ringtap_packet::options! {
    /// Options of a [`Sender`].
    #[derive(Clone, Debug)]
    pub struct SendOptions {
        /// How to handle a frame that the interface never accepts.
        pub on_rejected: OnRejected,
        /// How long to wait for a full queue before it is an error.
        pub patience: Duration,
        /// Whether to bypass the queueing discipline (AF_PACKET).
        pub qdisc_bypass: bool,
        /// Memory of the socket, in bytes, for frames that the device has not processed yet (AF_PACKET).
        pub buffer: Option<u32>,
        /// Stamps sent packets, to report how well the schedule was kept: [`Report::departures`]. AF_PACKET only;
        /// each stamp costs about as much as sending. Driver or adapter must support it (`ringtap devices`,
        /// `ethtool -T`); for an adapter's clock, stamping must already be enabled.
        pub stamps: Option<SendStamps>,
        /// Whether generated frames of one size and flow are handed over many at a time, as one datagram that the
        /// kernel or the adapter cuts (generic segmentation offload; AF_PACKET, Linux 6.2). The adapter then
        /// computes checksums: a virtual interface leaves them incomplete. The frames pass the queueing
        /// discipline.
        pub segmentation: bool,
        /// The traffic that will be generated, to choose a back-end. `None` if packets are given.
        pub demand: Option<Demand>,
    }
}

/// Traffic that will be generated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// Length of the longest frame, in bytes.
    pub longest: usize,
    /// Packets per second; `None` for as many as possible.
    pub per_second: Option<f64>,
}

impl Default for SendOptions {
    /// Returns the defaults: skips rejected frames, waits a second for a full queue, bypasses the queueing
    /// discipline.
    fn default() -> Self {
        Self {
            on_rejected: OnRejected::Skip,
            patience: Duration::from_secs(1),
            qdisc_bypass: true,
            buffer: None,
            stamps: None,
            segmentation: false,
            demand: None,
        }
    }
}

/// Sends packets on one interface.
pub struct Sender {
    device: String,
    index: u32,
    link_type: LinkType,
    back_end: Box<dyn BackEnd>,
    reason: String,
    options: SendOptions,
    waker: Waker,
    /// The number of all accepted packets, modulo 2^32, which numbers stamps.
    stamped: u32,
    /// Whether a template was prepared for the next generation.
    is_prepared: bool,
}

impl Sender {
    /// Opens an interface of the calling thread's network namespace. The device may name a back-end:
    /// `packet:eth0`. Needs `CAP_NET_RAW`.
    ///
    /// # Errors
    /// There is no such interface or back-end; the privilege is missing; the interface is down.
    pub fn open(device: &str, options: &SendOptions) -> Result<Self> {
        let (device, back_end, reason) = choice::open(device, options)?;
        Ok(Self {
            device: device.name,
            index: device.index,
            link_type: device.link_type,
            back_end,
            reason,
            options: options.clone(),
            waker: Waker::new()?,
            stamped: 0,
            is_prepared: false,
        })
    }

    /// Returns the interface's name.
    #[must_use]
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Returns the link type of the frames that the interface takes.
    #[must_use]
    pub const fn link_type(&self) -> LinkType {
        self.link_type
    }

    /// Returns the back-end that sends, and why it was chosen.
    #[must_use]
    pub fn back_end(&self) -> (BackEndKind, &str) {
        (self.back_end.kind(), &self.reason)
    }

    /// Returns the capabilities that sending still needs; others may be given up.
    #[must_use]
    pub fn required_capabilities(&self) -> &'static [Capability] {
        // A process with the descriptor of a program may run it (Linux 5.19), and live frames need Linux 6.3.
        &[]
    }

    /// Counts further accepted packets.
    fn count_stamped(&mut self, packets: usize) {
        // The wrap modulo 2^32 is intended.
        let low = packets as u64 & u64::from(u32::MAX);
        self.stamped = self
            .stamped
            .wrapping_add(u32::try_from(low).unwrap_or_default());
    }

    /// Returns notes on the back-end, one line each.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        self.back_end.notes()
    }

    /// Returns why much traffic on this interface may harm the host: it carries its default route, or an
    /// interface above it does. `None` if neither does.
    ///
    /// # Errors
    /// The routes cannot be read.
    pub fn hazard(&self) -> Result<Option<String>> {
        route_over(self.index).map_err(SendError::of_interface(&self.device))
    }

    /// Returns a handle that ends the present or the next run from another thread or a signal handler.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Sends one frame immediately.
    ///
    /// # Errors
    /// The frame was not sent; the error has the reason. A full queue is waited for as long as the options
    /// allow.
    pub fn send(&mut self, frame: &[u8]) -> Result<()> {
        let packet = Outgoing {
            timestamp: Timestamp::default(),
            data: frame,
        };
        let on_rejected = std::mem::replace(&mut self.options.on_rejected, OnRejected::Stop);
        let report = self.transmit([packet], Timing::TopSpeed);
        self.options.on_rejected = on_rejected;
        match report?.error {
            Some((_, error)) => Err(error),
            None => Ok(()),
        }
    }

    /// Sends all the packets: without a schedule with [`Timing::TopSpeed`], at their times with
    /// [`Timing::Recorded`]. The report has the reasons why packets were not sent.
    ///
    /// # Errors
    /// The timing's value is invalid.
    pub fn transmit<'a>(
        &mut self,
        packets: impl IntoIterator<Item = Outgoing<'a>>,
        timing: Timing,
    ) -> Result<Report> {
        let mut run = self.begin(timing)?;
        // The report has the reason why a run ended.
        let _ = run.send(packets);
        Ok(run.finish())
    }

    /// Starts a run, to which packets are then passed piece by piece.
    ///
    /// # Errors
    /// The timing's value is invalid.
    pub fn begin(&mut self, timing: Timing) -> Result<SendRun<'_>> {
        SendRun::new(self, timing)
    }
}

/// Returns the first default route through an interface, in words.
fn route_over(index: u32) -> netlink::Result<Option<String>> {
    let hazards = steal_hazards(&mut Netlink::open()?, index)?;
    let is_route = |hazard: &StealHazard| !matches!(hazard, StealHazard::Loopback);
    let first = hazards.into_iter().find(is_route);
    Ok(first.map(|hazard| hazard.to_string()))
}
