//! Why no program could be attached.

use ringtap_sys::{bpf, netlink};

use super::{PassedOver, StealHazard};

/// A program that could not be attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HookError {
    /// Stealing would cut the host off.
    #[error("{device}: stealing needs consent (--force): {}", joined(hazards))]
    Hazardous {
        /// The device.
        device: String,
        /// What hangs on it.
        hazards: Vec<StealHazard>,
    },
    /// Only received packets can be stolen.
    #[error("{device}: packets that the host sends cannot be stolen")]
    StealsSent {
        /// The device.
        device: String,
    },
    /// Every hook was passed over.
    #[error("{device}: no hook is left: {}", joined(passed_over))]
    NoHook {
        /// The device.
        device: String,
        /// The hooks, each with its reason.
        passed_over: Vec<PassedOver>,
    },
    /// The device is gone.
    #[error("{device}: the interface is gone")]
    Gone {
        /// The device.
        device: String,
    },
    /// `bpf(2)` refused.
    #[error("{device}: {source}")]
    Bpf {
        /// The device.
        device: String,
        /// What was refused, with a hint where the reason is known.
        r#source: bpf::Error,
    },
    /// rtnetlink refused.
    #[error("{device}: {source}")]
    Netlink {
        /// The device.
        device: String,
        /// What was refused.
        r#source: netlink::Error,
    },
}

/// The error number of a device that is gone.
const ENODEV: i32 = 19;

impl HookError {
    /// Returns what it means that `bpf(2)` refused a request about a device, which may be gone.
    pub(crate) fn of_bpf(device: &str, source: bpf::Error) -> Self {
        let device = device.to_owned();
        match source.errno() {
            Some(ENODEV) => Self::Gone { device },
            _ => Self::Bpf { device, source },
        }
    }

    /// Returns what it means that rtnetlink refused a request about a device, which may be gone.
    pub(crate) fn of_netlink(device: &str, source: netlink::Error) -> Self {
        let device = device.to_owned();
        match source.errno() {
            Some(ENODEV) => Self::Gone { device },
            _ => Self::Netlink { device, source },
        }
    }
}

fn joined(items: &[impl ToString]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    items.join("; ")
}
