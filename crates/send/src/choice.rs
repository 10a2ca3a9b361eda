//! Chooses the back-end, with a reason.

use ringtap_capture::Error;
use ringtap_capture::hook::HookDevice;

use crate::live::{self, LiveBackEnd};
use crate::packet::PacketBackEnd;
use crate::xsk::XskBackEnd;
use crate::{BACK_ENDS, BackEnd, BackEndKind, Result, SendError, SendOptions};

/// The rate, in packets per second, from which on live frames are chosen.
const WORTH_LIVE: f64 = 200_000.0;

/// Opens the back-end that the device names, else the best one. Returns the interface, the back-end, and the reason.
pub(crate) fn open(
    given: &str,
    options: &SendOptions,
) -> Result<(HookDevice, Box<dyn BackEnd>, String)> {
    let (kind, name) = parse(given)?;
    let device = find(name, given)?;
    if let Some(kind) = kind
        && kind != BackEndKind::Packet
        && let Some(what) = packet_only(options)
    {
        return Err(SendError::Unsuitable {
            device: device.name.clone(),
            back_end: kind.name(),
            reason: format!("only the back-end packet {what}"),
        });
    }
    let back_end: Box<dyn BackEnd> = match kind {
        Some(BackEndKind::Packet) => Box::new(PacketBackEnd::open(&device, options)?),
        Some(BackEndKind::Live) => Box::new(LiveBackEnd::open(&device)?),
        Some(BackEndKind::Xsk) => Box::new(XskBackEnd::open(&device)?),
        None => {
            let (back_end, reason) = automatic(&device, options)?;
            return Ok((device, back_end, reason));
        }
    };
    Ok((device, back_end, "it was requested".to_owned()))
}

/// Returns the requested feature that only the back-end packet supports.
fn packet_only(options: &SendOptions) -> Option<&'static str> {
    match options.stamps {
        Some(_) => Some("has its packets stamped"),
        None => options.segmentation.then_some("has the kernel cut frames"),
    }
}

/// Returns the best back-end, with the reason: live frames for much generated traffic if they are available,
/// else AF_PACKET.
fn automatic(device: &HookDevice, options: &SendOptions) -> Result<(Box<dyn BackEnd>, String)> {
    let asked = packet_only(options).map(|what| format!("only it {what}"));
    let reason = match (&options.demand, asked) {
        (_, Some(reason)) => reason,
        (None, None) => "it takes any frame on any interface".to_owned(),
        (Some(demand), None) if demand.longest > live::LONGEST => {
            format!("live frames have at most {} bytes", live::LONGEST)
        }
        (Some(demand), None) if demand.per_second.is_some_and(|rate| rate < WORTH_LIVE) => {
            "it keeps the schedule best at this rate".to_owned()
        }
        (Some(_), None) => match LiveBackEnd::open(device) {
            Ok(back_end) => {
                let reason =
                    "the kernel can make these frames, and the driver takes them".to_owned();
                return Ok((Box::new(back_end), reason));
            }
            Err(
                error @ (SendError::Unsuitable { .. }
                | SendError::NotPermitted { .. }
                | SendError::Bpf { .. }),
            ) => error.to_string(),
            Err(error) => return Err(error),
        },
    };
    let back_end = PacketBackEnd::open(device, options)?;
    Ok((Box::new(back_end), reason))
}

/// Returns the back-end and the interface of a device. An interface's own name may contain a colon, unless a
/// back-end's name precedes it.
fn parse(given: &str) -> Result<(Option<BackEndKind>, &str)> {
    let Some((name, device)) = given.split_once(':') else {
        return Ok((None, given));
    };
    match BACK_ENDS.iter().find(|kind| kind.name() == name) {
        Some(kind) => Ok((Some(*kind), device)),
        None if find(given, given).is_ok() => Ok((None, given)),
        None => Err(SendError::UnknownBackEnd {
            device: given.to_owned(),
            name: name.to_owned(),
            known: BACK_ENDS.map(BackEndKind::name).to_vec(),
        }),
    }
}

fn find(name: &str, given: &str) -> Result<HookDevice> {
    HookDevice::find(name).map_err(|error| match error {
        Error::Interface { device, source } => SendError::Interface { device, source },
        Error::System(source) => SendError::System(source),
        _ => SendError::NoSuchDevice {
            device: given.to_owned(),
        },
    })
}
