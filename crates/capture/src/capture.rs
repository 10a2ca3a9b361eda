//! The high-level interface: a capture from options, and a closure for each packet.

use std::num::NonZeroU32;
use std::ops::ControlFlow;
use std::time::Duration;

use crate::{
    CaptureOptions, Direction, Filter, Next, Packet, Result, Source, Stats, TimestampSource, Waker,
    open,
};

/// A live capture that yields packets.
pub struct Capture {
    source: Box<dyn Source>,
}

impl Capture {
    /// Returns a builder for a capture on `device`: `eth0`, `packet:eth0`, `any`.
    pub fn on(device: &str) -> CaptureBuilder {
        CaptureBuilder {
            device: device.to_owned(),
            options: CaptureOptions::default(),
            filter: None,
        }
    }

    /// Passes each packet to `each`, until it breaks (and its value is returned) or the [`Waker`] is used
    /// (and `None` is returned). After a break, the remaining packets of the block are dropped.
    ///
    /// # Errors
    ///
    /// The same errors as [`Source::next`].
    pub fn for_each<B>(
        &mut self,
        mut each: impl FnMut(Packet<'_>) -> ControlFlow<B>,
    ) -> Result<Option<B>> {
        loop {
            match self.source.next()? {
                Next::Block(block) => {
                    for packet in &block {
                        if let ControlFlow::Break(value) = each(packet) {
                            return Ok(Some(value));
                        }
                    }
                }
                Next::Woken | Next::End => return Ok(None),
                Next::TimedOut | Next::Meta(_) => {}
            }
        }
    }

    /// Returns the counters since the capture was opened.
    ///
    /// # Errors
    ///
    /// The same errors as [`Source::stats`].
    pub fn stats(&mut self) -> Result<Stats> {
        self.source.stats()
    }

    /// Returns a handle that ends [`Capture::for_each`] from another thread or a signal handler.
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.source.waker()
    }

    /// Returns the underlying source of blocks.
    pub fn source(&mut self) -> &mut dyn Source {
        &mut *self.source
    }

    /// Returns the source of blocks, for use at the lower level.
    #[must_use]
    pub fn into_source(self) -> Box<dyn Source> {
        self.source
    }
}

/// Options of a capture that is not open yet. [`CaptureOptions`] has units and limits.
#[derive(Clone, Debug)]
#[must_use = "nothing is captured before `open`"]
pub struct CaptureBuilder {
    device: String,
    options: CaptureOptions,
    filter: Option<Filter>,
}

impl CaptureBuilder {
    /// Opens the capture.
    ///
    /// # Errors
    ///
    /// The same errors as [`open`].
    pub fn open(self) -> Result<Capture> {
        let source = open(&self.device, &self.options, self.filter.as_ref())?;
        Ok(Capture { source })
    }

    /// Sets the filter: an expression of the pcap-filter language.
    pub fn filter(mut self, expression: &str) -> Self {
        self.filter = Some(Filter::new(expression));
        self
    }

    /// Sets all options at once.
    pub fn options(mut self, options: CaptureOptions) -> Self {
        self.options = options;
        self
    }

    /// Sets [`CaptureOptions::snaplen`], in bytes.
    pub fn snaplen(mut self, bytes: u32) -> Self {
        self.options.snaplen = bytes;
        self
    }

    /// Sets [`CaptureOptions::buffer`], in bytes.
    pub fn buffer(mut self, bytes: u64) -> Self {
        self.options.buffer = bytes;
        self
    }

    /// Sets [`CaptureOptions::timeout`].
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.options.timeout = timeout;
        self
    }

    /// Sets [`CaptureOptions::immediate`].
    pub fn immediate(mut self, on: bool) -> Self {
        self.options.immediate = on;
        self
    }

    /// Sets [`CaptureOptions::promiscuous`].
    pub fn promiscuous(mut self, on: bool) -> Self {
        self.options.promiscuous = on;
        self
    }

    /// Sets [`CaptureOptions::direction`].
    pub fn direction(mut self, direction: Direction) -> Self {
        self.options.direction = direction;
        self
    }

    /// Sets [`CaptureOptions::timestamp`].
    pub fn timestamp(mut self, source: TimestampSource) -> Self {
        self.options.timestamp = source;
        self
    }

    /// Sets [`CaptureOptions::sample`].
    pub fn sample(mut self, one_in: NonZeroU32) -> Self {
        self.options.sample = Some(one_in);
        self
    }
}
