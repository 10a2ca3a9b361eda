//! The automatic choice of an engine, with its reason.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

use ringtap_savefile::Interface;
use ringtap_sys::bpf::Program;
use ringtap_sys::privileges::Capability;

use super::{Device, ENGINES, Engine, packet, tap, trial};
use crate::options::{CaptureOptions, Direction, Mode};
use crate::source::{Companion, Delivery};
use crate::{Description, Error, Filter, LinkType, Next, Result, Source, Stats, Waker};

/// Opens the device by the engine that suits best: the tap at tcx where it can be had, else the
/// AF_PACKET ring. Who steals gets a tap or nothing.
pub(super) fn open(
    device: &Device<'_>,
    options: &CaptureOptions,
    filter: Option<&Filter>,
) -> Result<Box<dyn Source>> {
    if options.mode == Mode::Steal {
        let source = tap::open_stealing(device, options, filter)?;
        return Ok(chosen(source, "packets are to be stolen".to_owned()));
    }
    let reason = match only_packet(device, options) {
        Some(reason) => reason.to_owned(),
        None => match tap::open_tcx(device, options, filter) {
            Ok(source) => {
                let reason = "available here, and the cheapest for both directions".to_owned();
                return Ok(chosen(source, reason));
            }
            Err(error) if is_obstacle(&error) => {
                let kernel = device.host().kernel;
                let error = trial::explain(error, tap_engine(), &kernel, device.given);
                format!("not tcx: {error}")
            }
            Err(error) => return Err(error),
        },
    };
    let source = packet::open(device, options, filter)?;
    Ok(chosen(source, reason))
}

/// Opens the device for several readers by the one engine that has them.
pub(super) fn fanout(
    device: &Device<'_>,
    options: &CaptureOptions,
    filter: Option<&Filter>,
    count: usize,
) -> Result<Vec<Box<dyn Source>>> {
    let sources = (device.engine().fanout)(device, options, filter, count)?;
    let with_reason = |source| chosen(source, ONE_READER.to_owned());
    Ok(sources.into_iter().map(with_reason).collect())
}

const ONE_READER: &str = "the only one with several readers";

/// Why only the AF_PACKET ring comes into question.
fn only_packet(device: &Device<'_>, options: &CaptureOptions) -> Option<&'static str> {
    if device.name == "any" {
        Some("it filters all interfaces in the kernel; tcx:any is the tap on all of them")
    } else if options.fanout.is_some() {
        Some(ONE_READER)
    } else {
        None
    }
}

fn tap_engine() -> &'static Engine {
    &ENGINES[1]
}

/// Whether another engine may succeed where the tap did not.
fn is_obstacle(error: &Error) -> bool {
    matches!(
        error,
        Error::Hook(_) | Error::NoLinkType { .. } | Error::System(_)
    )
}

fn chosen(source: Box<dyn Source>, reason: String) -> Box<dyn Source> {
    Box::new(Chosen { source, reason })
}

/// A source that tells why it was chosen.
struct Chosen {
    source: Box<dyn Source>,
    reason: String,
}

impl Source for Chosen {
    fn interfaces(&self) -> &[Interface] {
        self.source.interfaces()
    }

    fn next(&mut self) -> Result<Next<'_>> {
        self.source.next()
    }

    fn try_next(&mut self) -> Result<Next<'_>> {
        self.source.try_next()
    }

    fn stats(&mut self) -> Result<Stats> {
        self.source.stats()
    }

    fn waker(&self) -> Waker {
        self.source.waker()
    }

    fn required_capabilities(&self) -> &'static [Capability] {
        self.source.required_capabilities()
    }

    fn split_readers(&mut self, readers: usize, wait: Duration) -> Result<Vec<Box<dyn Source>>> {
        self.source.split_readers(readers, wait)
    }

    fn set_filter(&mut self, filter: Option<&Filter>) -> Result<()> {
        self.source.set_filter(filter)
    }

    fn set_delivery(&mut self, delivery: Delivery) -> Result<()> {
        self.source.set_delivery(delivery)
    }

    fn set_buffer(&mut self, bytes: u64) -> Result<()> {
        self.source.set_buffer(bytes)
    }

    fn set_direction(&mut self, direction: Direction) -> Result<()> {
        self.source.set_direction(direction)
    }

    fn set_link_type(&mut self, link_type: LinkType) -> Result<()> {
        self.source.set_link_type(link_type)
    }

    fn companion(&self) -> Option<Arc<dyn Companion>> {
        self.source.companion()
    }

    fn poll_fd(&mut self) -> Result<Option<RawFd>> {
        self.source.poll_fd()
    }

    fn settle(&mut self, has_more: bool) {
        self.source.settle(has_more);
    }

    fn poll_interval(&self) -> Option<Duration> {
        self.source.poll_interval()
    }

    fn programs(&self) -> Result<Vec<Program>> {
        self.source.programs()
    }

    fn describe(&self) -> Description {
        Description {
            choice: Some(self.reason.clone()),
            ..self.source.describe()
        }
    }
}
