//! `ringtap devices`: lists the devices that can be captured on, and how a capture differs from the wire.
//!
//! Devices go in, as `ringtap_capture::devices` lists them. A block of text per device ([`text`]) comes out,
//! or one JSON array ([`json`]) whose keys scripts depend on.

mod json;
mod text;

use ringtap_capture::devices::{self, DeviceError, DeviceInfo};

use crate::cli::DevicesArgs;
use crate::exit::{Ends, RunError};
use crate::output;
use crate::rights::{NamedFiles, Needs, Rights};

/// The unsuccessful end of `ringtap devices`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DevicesError {
    /// The devices could not be listed.
    #[error(transparent)]
    List(#[from] DeviceError),
    /// There is no device of that name.
    #[error("no such device: \"{}\"; devices are {known}", devices::escape(name.as_bytes()))]
    NoSuchDevice {
        name: String,
        /// The existing names, separated by commas.
        known: String,
    },
    /// A failure that other commands have too.
    #[error(transparent)]
    Run(RunError),
}

impl<E: Into<RunError>> From<E> for DevicesError {
    fn from(error: E) -> Self {
        Self::Run(error.into())
    }
}

impl Ends for DevicesError {
    fn exit_status(&self) -> u8 {
        match self {
            Self::Run(error) => error.exit_status(),
            _ => 1,
        }
    }
}

/// Lists the devices on standard output.
pub(crate) fn run(args: &DevicesArgs) -> Result<(), DevicesError> {
    let rights = Rights::begin(&args.rights, NamedFiles::default(), None)?;
    let devices = select(devices::list()?, &args.devices)?;
    // The present privileges decide which engines work here.
    let mut text = Vec::new();
    let made = if args.json {
        json::print(&devices, &mut text)
    } else {
        text::print(&devices, args.verbose, &mut text)
    };
    rights.relinquish(&[], Needs::default())?;
    let printed = made.and_then(|()| output::print(text));
    Ok(printed.map_err(RunError::Print)?)
}

/// Returns the named devices in the order of their names on the command line, or all without a name.
fn select(
    mut devices: Vec<DeviceInfo>,
    wanted: &[String],
) -> Result<Vec<DeviceInfo>, DevicesError> {
    if wanted.is_empty() {
        return Ok(devices);
    }
    let mut places: Vec<usize> = Vec::with_capacity(wanted.len());
    for name in wanted {
        let at = devices::position(&devices, name).ok_or_else(|| {
            let known: Vec<_> = devices
                .iter()
                .map(|device| device.name.to_string())
                .collect();
            DevicesError::NoSuchDevice {
                name: name.clone(),
                known: known.join(", "),
            }
        })?;
        if !places.contains(&at) {
            places.push(at);
        }
    }
    let mut order = 0..devices.len();
    devices.sort_by_cached_key(|_| {
        let at = order.next().unwrap_or_default();
        places
            .iter()
            .position(|place| *place == at)
            .unwrap_or(usize::MAX)
    });
    devices.truncate(places.len());
    Ok(devices)
}

/// Returns the index of the interface that a device names, with or without an engine before it. 0 for
/// others, such as "any": there, each packet names its interface.
pub(crate) fn index_of(device: &str) -> u32 {
    let name = device.split_once(':').map_or(device, |(_, name)| name);
    let known = devices::by_name(name).or_else(|_| devices::by_name(device));
    known.map_or(0, |known| known.index)
}

/// Returns the name of the device that `ringtap devices` lists under this number, if there is one.
pub(crate) fn by_number(device: &str) -> Option<String> {
    device.parse::<u32>().ok()?;
    let known = devices::by_name(device).ok()?;
    Some(known.name.to_string())
}
