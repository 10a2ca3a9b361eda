//! Names of interfaces in Wireshark: `ringtap-ENGINE-DEV`, `ringtap-any`, or `ringtap-ssh` for those of other machines.

use std::str::FromStr;

use ringtap_capture::devices::{self, ANY, DeviceError, DeviceInfo};
use ringtap_capture::{ENGINES, Engine, LinkType};

/// The beginning of all names.
const PREFIX: &str = "ringtap-";

/// The engine whose packets are those that the kernel drops.
const DROPS: &str = "drop";
/// The engine that knows the processes of packets.
const TCX: &str = "tcx";

/// The interface that stands for those of other machines.
pub(super) const REMOTE: &str = "ringtap-ssh";

/// An interface of Wireshark's list.
#[derive(Clone, Debug)]
pub(super) enum Interface {
    /// One of this machine.
    Local(Local),
    /// One of another machine, which is reached over ssh.
    Remote,
}

/// An interface with the engine that captures on it.
#[derive(Clone, Debug)]
pub(super) struct Local {
    engine: Option<&'static Engine>,
    device: String,
}

/// A name that no interface has.
#[derive(Debug, thiserror::Error)]
#[error("expected ringtap-any, ringtap-ssh or ringtap-ENGINE-DEV, such as ringtap-tcx-eth0")]
pub(super) struct NoInterface;

impl FromStr for Interface {
    type Err = NoInterface;

    fn from_str(text: &str) -> Result<Self, NoInterface> {
        match text {
            REMOTE => Ok(Self::Remote),
            _ => text.parse().map(Self::Local),
        }
    }
}

impl FromStr for Local {
    type Err = NoInterface;

    fn from_str(text: &str) -> Result<Self, NoInterface> {
        let rest = text.strip_prefix(PREFIX).ok_or(NoInterface)?;
        if rest == ANY {
            return Ok(Self {
                engine: None,
                device: ANY.to_owned(),
            });
        }
        let (engine, device) = rest
            .split_once('-')
            .filter(|(_, device)| !device.is_empty())
            .ok_or(NoInterface)?;
        let engine = ENGINES
            .iter()
            .find(|known| known.name == engine)
            .ok_or(NoInterface)?;
        Ok(Self {
            engine: Some(engine),
            device: device.to_owned(),
        })
    }
}

impl Interface {
    /// Returns the interface if it is one of this machine.
    pub(super) fn local(&self) -> Option<&Local> {
        match self {
            Self::Local(local) => Some(local),
            Self::Remote => None,
        }
    }

    /// Returns whether it is one of another machine.
    pub(super) fn is_remote(&self) -> bool {
        self.local().is_none()
    }

    /// Returns whether captures on it can name the processes of packets.
    pub(super) fn has_processes(&self) -> bool {
        self.local().is_none_or(Local::has_processes)
    }

    /// Returns whether its packets come from an adapter, and not from where the kernel drops them.
    pub(super) fn is_at_adapter(&self) -> bool {
        self.local().is_none_or(Local::is_at_adapter)
    }

    /// Returns whether packets can be taken from the host there.
    pub(super) fn can_steal(&self) -> bool {
        self.local().is_some_and(Local::is_at_adapter)
    }
}

impl Local {
    /// Returns the device in the form of `-i`.
    pub(super) fn device(&self) -> String {
        match self.engine {
            Some(engine) => format!("{}:{}", engine.name, self.device),
            None => self.device.clone(),
        }
    }

    fn has_processes(&self) -> bool {
        self.engine.is_none_or(|engine| engine.name == TCX)
    }

    fn is_at_adapter(&self) -> bool {
        self.engine.is_none_or(|engine| engine.name != DROPS)
    }

    /// Returns the link type of its captures.
    pub(super) fn link_type(&self) -> Result<LinkType, DeviceError> {
        match self.engine.and_then(|engine| engine.link_type) {
            Some(link_type) => Ok(link_type),
            None => Ok(devices::by_name(&self.device)?.link_type),
        }
    }
}

/// Returns the names by which a device is listed, with a description of each. Engines that could never capture on
/// it are left out; for one that only lacks a privilege, the capture reports it.
pub(super) fn names(device: &DeviceInfo) -> Vec<(String, String)> {
    let mut names = Vec::new();
    if device.is_any() {
        let description = "ringtap on all interfaces".to_owned();
        names.push((format!("{PREFIX}{ANY}"), description));
    }
    let engines = device.engines().into_iter();
    let usable = engines.filter(|support| {
        use ringtap_capture::devices::Obstacle;
        // All interfaces are listed without an engine: ringtap chooses.
        (!device.is_any() || support.engine == DROPS)
            && matches!(support.obstacle, None | Some(Obstacle::Capability(_)))
    });
    names.extend(usable.map(|support| {
        let name = &device.name;
        let engine = support.engine;
        (
            format!("{PREFIX}{engine}-{name}"),
            format!("ringtap {engine} on {name}: {}", support.summary),
        )
    }));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_apart() {
        for (name, device) in [
            ("ringtap-any", "any"),
            ("ringtap-tcx-eth0", "tcx:eth0"),
            ("ringtap-drop-any", "drop:any"),
            ("ringtap-packet-br-0a1b", "packet:br-0a1b"),
        ] {
            let interface = name.parse::<Interface>().expect(name);
            let local = interface.local().expect(name);
            assert_eq!(local.device(), device);
        }
        assert!(matches!(REMOTE.parse(), Ok(Interface::Remote)));
        for name in [
            "eth0",
            "ringtap-",
            "ringtap-eth0",
            "ringtap-tcx-",
            "ringtap-dpdk-eth0",
        ] {
            assert!(name.parse::<Interface>().is_err(), "{name}");
        }
    }
}
