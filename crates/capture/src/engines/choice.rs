//! Chooses an engine automatically, with a reason.

use super::{Device, ENGINES, Engine, Request, packet, tap, trial};
use crate::options::{CaptureOptions, Mode};
use crate::readers::Readers;
use crate::{Error, Result};

/// Opens the device with the best engine: the tap at tcx if it is available, else the AF_PACKET ring.
/// Stealing needs a tap.
pub(super) fn open(device: &Device<'_>, request: Request<'_>) -> Result<Readers> {
    let options = request.options;
    let because = |reason| Device {
        choice: Some(reason),
        ..*device
    };
    let explain =
        |error, engine| trial::explain(error, engine, &device.host().kernel, device.given);
    if options.mode == Mode::Steal {
        let opened = tap::open_stealing(&because("it can steal packets"), request);
        return opened.map_err(|error| explain(error, xdp_engine()));
    }
    let only_tap = if options.who.is_some() {
        Some("it can find the process of a packet")
    } else if options.all_namespaces {
        Some("it captures in all network namespaces")
    } else {
        None
    };
    if let Some(reason) = only_tap {
        let opened = tap::open_tcx(&because(reason), request);
        return opened.map_err(|error| explain(error, tap_engine()));
    }
    let reason = match only_packet(device, options) {
        Some(reason) => reason.to_owned(),
        None => {
            let device = because("available here, and the cheapest for both directions");
            match tap::open_tcx(&device, request) {
                Err(error) if is_obstacle(&error) => {
                    format!("not tcx: {}", explain(error, tap_engine()))
                }
                outcome => return outcome,
            }
        }
    };
    packet::open(&because(&reason), request)
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
