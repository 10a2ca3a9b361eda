//! Temporary changes of settings of the host's interface.

use std::fs;
use std::path::{Path, PathBuf};

use ringtap_sys::ethtool::Ethtool;
use ringtap_sys::netlink::{Name, Netlink};

use crate::{Error, Result};

/// A change of a setting; dropping it restores the old value.
#[derive(Debug)]
pub(crate) enum Changed {
    /// Files with their old content.
    Files(Vec<(PathBuf, String)>),
    /// Receive offload, which was on, by the interface's name.
    Gro(String),
}

impl Changed {
    /// Makes the kernel distribute packets of all queues to these processors, a bit for each.
    pub(crate) fn rps(device: &str, mask: u64) -> Result<Self> {
        let folder = Path::new("/sys/class/net").join(device);
        check(&folder, device)?;
        let queues = folder.join("queues");
        let mut files = Vec::new();
        for entry in fs::read_dir(&queues).map_err(Error::setting(&queues))? {
            let path = entry.map_err(Error::setting(&queues))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("rx-") {
                files.push(path.join("rps_cpus"));
            }
        }
        // From here on, changes are undone whatever happens.
        let mut changed = Vec::new();
        let mut change = |path: PathBuf| {
            let before = fs::read_to_string(&path).map_err(Error::setting(&path))?;
            fs::write(&path, format!("{mask:x}")).map_err(Error::setting(&path))?;
            changed.push((path, before));
            Ok(())
        };
        let done: Result<()> = files.into_iter().try_for_each(&mut change);
        let changed = Self::Files(changed);
        done.map(|()| changed)
    }

    /// Switches the joining of received packets off, if it is on.
    pub(crate) fn gro_off(device: &str) -> Result<Self> {
        switch_gro(device, false)?;
        Ok(Self::Gro(device.to_owned()))
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        // A process that could change it can restore it; an interface that is gone needs nothing.
        match self {
            Self::Files(files) => {
                for (path, before) in files {
                    let _ = fs::write(path, before.trim());
                }
            }
            Self::Gro(device) => {
                let _ = switch_gro(device, true);
            }
        }
    }
}

fn switch_gro(device: &str, on: bool) -> Result<()> {
    let name = Name::new(device.as_bytes());
    let switched = Ethtool::open().and_then(|mut it| it.set_receive_offload(&name, on));
    switched.map(|_| ()).map_err(|source| Error::Offload {
        device: device.to_owned(),
        source,
    })
}

/// Checks that the folder belongs to the interface. `/sys` may belong to another network namespace
/// with an interface of the same name, whose settings must not change.
fn check(folder: &Path, device: &str) -> Result<()> {
    let failed = |source| Error::Interface {
        device: device.to_owned(),
        source,
    };
    let link = Netlink::open()
        .and_then(|mut netlink| netlink.link(device))
        .map_err(failed)?;
    let bytes: Vec<String> = link
        .address
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let own = [
        ("ifindex", link.index.to_string()),
        ("address", bytes.join(":")),
    ];
    let is_same = own.iter().all(|(name, value)| {
        let found = fs::read_to_string(folder.join(name));
        found.is_ok_and(|found| found.trim() == value)
    });
    if is_same {
        Ok(())
    } else {
        Err(Error::Elsewhere {
            path: folder.to_owned(),
        })
    }
}
