//! Network adapters with drivers of real hardware, in a machine that belongs to the test: two that are
//! joined, each moved to a namespace.

use std::fs;
use std::io;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ringtap_sys::netlink::Netlink;

use crate::netns::{Side, VethOptions, VethPair, WireError, Wired};

/// How long the kernel may take to give adapters back whose namespaces are gone, or to find them anew.
const FOUND: Duration = Duration::from_secs(20);
const INTERVAL: Duration = Duration::from_millis(20);
/// The name of both adapters in their namespaces, the same as that of a veth pair's left end.
const DEVICE: &str = "veth0";

/// A network adapter in the first namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Adapter {
    /// Its folder in `/sys/devices`, which has a file to unplug it. Adapters are in the order of
    /// their places.
    place: PathBuf,
    /// Its name there.
    device: String,
}

impl Adapter {
    /// Unplugs it, wherever it is, until somebody looks for adapters anew.
    ///
    /// # Errors
    /// Returns an error if the kernel does not unplug it.
    pub fn unplug(&self) -> io::Result<()> {
        fs::write(self.place.join("remove"), "1")
    }

    /// Its address, as long as it is in the first namespace.
    fn mac(&self) -> Option<[u8; 6]> {
        let file = Path::new("/sys/class/net").join(&self.device);
        let text = fs::read_to_string(file.join("address")).ok()?;
        let bytes = text.trim().split(':');
        let bytes = bytes.map_while(|byte| u8::from_str_radix(byte, 16).ok());
        bytes.collect::<Vec<u8>>().try_into().ok()
    }
}

/// Returns the adapters with a driver, such as `e1000e`, that are in the first namespace.
#[must_use]
pub fn of(driver: &str) -> Vec<Adapter> {
    let entries = fs::read_dir("/sys/class/net").into_iter().flatten();
    let mut adapters: Vec<Adapter> = entries
        .flatten()
        .filter_map(|entry| {
            let device = fs::canonicalize(entry.path().join("device")).ok()?;
            let used = fs::read_link(device.join("driver")).ok()?;
            (used.file_name()?.to_str() == Some(driver)).then_some(())?;
            // The device of virtio is below the one that can be unplugged.
            let place = device
                .ancestors()
                .find(|folder| folder.join("remove").exists())?;
            Some(Adapter {
                place: place.to_owned(),
                device: entry.file_name().into_string().ok()?,
            })
        })
        .collect();
    adapters.sort();
    adapters
}

/// Two joined adapters, each in a namespace of its own.
#[derive(Debug)]
pub struct Joined {
    /// The namespaces, as those of a veth pair, with the device `veth0` in both.
    pub pair: VethPair,
    /// The adapter of the left side.
    pub left: Adapter,
}

/// Moves the two adapters with a driver to namespaces. They come back when these are gone.
///
/// # Errors
/// Returns an error if they cannot be found or moved.
pub fn joined(driver: &str) -> Result<Joined, String> {
    let found = both(driver)?;
    let made = pair(&found).map_err(|error| format!("{driver}: {error}"))?;
    let [left, _] = found;
    Ok(Joined { pair: made, left })
}

/// Waits for both adapters, which may have to come back from an earlier test.
fn both(driver: &str) -> Result<[Adapter; 2], String> {
    let deadline = Instant::now() + crate::patience(FOUND);
    // One that was unplugged is found when the kernel looks.
    let mut looks_at = Instant::now() + Duration::from_secs(1);
    loop {
        match <[Adapter; 2]>::try_from(of(driver)) {
            Ok(found) => return Ok(found),
            Err(found) if Instant::now() > deadline => {
                return Err(format!("{driver}: {} adapters, not 2", found.len()));
            }
            Err(_) => {}
        }
        if Instant::now() > looks_at {
            fs::write("/sys/bus/pci/rescan", "1").map_err(|error| error.to_string())?;
            looks_at = Instant::now() + FOUND;
        }
        std::thread::sleep(INTERVAL);
    }
}

fn pair([left, right]: &[Adapter; 2]) -> Wired<VethPair> {
    let options = VethOptions::default();
    VethPair::configured(side(1, left)?, side(2, right)?, &options)
}

/// Moves an adapter to a namespace of its own, and gives it its name there.
fn side(number: u8, adapter: &Adapter) -> Wired<Side> {
    let failed = || WireError::of(&adapter.device);
    let mut side = Side::new(number, &VethOptions::default())?;
    side.mac = adapter.mac().unwrap_or(side.mac);
    let mut first = Netlink::open().map_err(failed())?;
    first.set_up(&adapter.device, false).map_err(failed())?;
    let moved = first.move_to(&adapter.device, side.namespace.as_fd());
    moved.map_err(failed())?;
    if adapter.device != DEVICE {
        let mut inside = side.netlink()?;
        inside.rename(&adapter.device, DEVICE).map_err(failed())?;
    }
    DEVICE.clone_into(&mut side.device);
    Ok(side)
}
