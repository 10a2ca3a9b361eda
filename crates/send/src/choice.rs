//! Chooses the back-end, with a reason.

use ringtap_capture::Error;
use ringtap_capture::hook::HookDevice;

use crate::live::{self, LiveBackEnd};
use crate::packet::PacketBackEnd;
use crate::xsk::XskBackEnd;
use crate::{BACK_ENDS, BackEnd, BackEndKind, Demand, Result, SendError, SendOptions};

/// The rate, in packets per second, from which on live frames are chosen.
const WORTH_LIVE: f64 = 200_000.0;

/// An interface with its back-end.
pub(crate) struct Opened {
    pub(crate) device: HookDevice,
    pub(crate) back_end: Box<dyn BackEnd>,
    pub(crate) reason: String,
}

/// Opens the back-end that the device names, else the best one.
pub(crate) fn open(given: &str, options: &SendOptions) -> Result<Opened> {
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
    let chosen = match kind {
        Some(kind) => (
            of_kind(kind, &device, options)?,
            "it was requested".to_owned(),
        ),
        None => automatic(&device, options)?,
    };
    let (back_end, reason) = chosen;
    Ok(Opened {
        device,
        back_end,
        reason,
    })
}

/// Returns the requested feature that only the back-end packet supports.
fn packet_only(options: &SendOptions) -> Option<&'static str> {
    if options.stamps.is_some() {
        Some("has its packets stamped")
    } else {
        let segmentation = options.segmentation;
        segmentation.then_some("has the kernel cut frames")
    }
}

fn of_kind(
    kind: BackEndKind,
    device: &HookDevice,
    options: &SendOptions,
) -> Result<Box<dyn BackEnd>> {
    Ok(match kind {
        BackEndKind::Packet => Box::new(PacketBackEnd::open(device, options)?),
        BackEndKind::Live => Box::new(LiveBackEnd::open(device)?),
        BackEndKind::Xsk => Box::new(XskBackEnd::open(device)?),
    })
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
        (
            Some(Demand {
                per_second: Some(rate),
                ..
            }),
            None,
        ) if *rate < WORTH_LIVE => "it keeps the schedule best at this rate".to_owned(),
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
    match BACK_ENDS.iter().find(|back_end| back_end.0 == name) {
        Some((_, kind)) => Ok((Some(*kind), device)),
        None if find(given, given).is_ok() => Ok((None, given)),
        None => Err(SendError::UnknownBackEnd {
            device: given.to_owned(),
            name: name.to_owned(),
            known: BACK_ENDS.map(|back_end| back_end.0).to_vec(),
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
