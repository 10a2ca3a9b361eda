//! Which back-end sends, and why.

use super::packet::PacketBackEnd;
use super::{BACK_ENDS, BackEnd, BackEndKind, Result, SendError, SendOptions};
use crate::Error;
use crate::hook::HookDevice;

/// An interface with the back-end that was chosen for it.
pub(super) struct Opened {
    pub(super) device: HookDevice,
    pub(super) back_end: Box<dyn BackEnd>,
    pub(super) reason: String,
}

/// Opens what the device asks for, else what suits best.
pub(super) fn open(given: &str, options: &SendOptions) -> Result<Opened> {
    let (kind, name) = parse(given)?;
    let device = find(name, given)?;
    let (kind, reason) = match kind {
        Some(kind) => (kind, "it was asked for".to_owned()),
        None => (
            BackEndKind::Packet,
            "it takes any frame on any interface".to_owned(),
        ),
    };
    let back_end: Box<dyn BackEnd> = match kind {
        BackEndKind::Packet => Box::new(PacketBackEnd::open(&device, options)?),
    };
    Ok(Opened {
        device,
        back_end,
        reason,
    })
}

/// The back-end and the interface that a device names. An interface's own name may hold a colon, if
/// what stands before is none of ours.
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
