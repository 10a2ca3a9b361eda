//! Chooses an engine automatically, with a reason.

use super::{Device, ENGINES, Engine, packet, tap, trial};
use crate::options::{CaptureOptions, Mode};
use crate::readers::Readers;
use crate::{Error, Filter, Result};

/// Opens the device with the best engine: the tap at tcx if it is available, else the AF_PACKET ring.
/// Stealing needs a tap.
pub(super) fn open(
    device: &Device<'_>,
    options: &CaptureOptions,
    filter: Option<&Filter>,
    count: usize,
) -> Result<Readers> {
    let because = |reason| Device {
        choice: Some(reason),
        ..*device
    };
    if options.mode == Mode::Steal {
        let opened = tap::open_stealing(&because("it can steal packets"), options, filter, count);
        return opened.map_err(|error| {
            let kernel = device.host().kernel;
            trial::explain(error, xdp_engine(), &kernel, device.given)
        });
    }
    if options.who.is_some() {
        let device = because("it can find the process of a packet");
        return tap::open_tcx(&device, options, filter, count);
    }
    if options.all_namespaces {
        let device = because("it captures in all network namespaces");
        return tap::open_tcx(&device, options, filter, count);
    }
    let reason = match only_packet(device, options) {
        Some(reason) => reason.to_owned(),
        None => {
            let device = because("available here, and the cheapest for both directions");
            match tap::open_tcx(&device, options, filter, count) {
                Err(error) if is_obstacle(&error) => {
                    let kernel = device.host().kernel;
                    let error = trial::explain(error, tap_engine(), &kernel, device.given);
                    format!("not tcx: {error}")
                }
                outcome => return outcome,
            }
        }
    };
    packet::open(&because(&reason), options, filter, count)
}

/// Returns the reason why only the AF_PACKET ring is possible.
fn only_packet(device: &Device<'_>, options: &CaptureOptions) -> Option<&'static str> {
    if device.name == "any" {
        Some("it filters all interfaces in the kernel; tcx:any is the tap on all of them")
    } else if options.fanout.is_some() {
        Some("the only one whose sockets share packets")
    } else {
        None
    }
}

fn tap_engine() -> &'static Engine {
    &ENGINES[1]
}

fn xdp_engine() -> &'static Engine {
    &ENGINES[2]
}

/// Returns whether another engine may succeed after the tap failed.
fn is_obstacle(error: &Error) -> bool {
    matches!(
        error,
        Error::Hook(_) | Error::NoLinkType { .. } | Error::System(_)
    )
}
