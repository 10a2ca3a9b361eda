//! The reasons why no program could be attached.

use ringtap_sys::errno::ENODEV;
use ringtap_sys::{bpf, netlink};

use super::{PassedOver, Reason, StealHazard};

/// A program that could not be attached.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HookError {
    /// Stealing would disconnect the host.
    #[error("{device}: stealing needs consent (--force): {}", joined(hazards))]
    Hazardous {
        /// The device.
        device: String,
        /// The host's uses of the device.
        hazards: Vec<StealHazard>,
    },
    /// Only received packets can be stolen.
    #[error("{device}: packets that the host sends cannot be stolen")]
    StealsSent {
        /// The device.
        device: String,
    },
    /// Every hook was passed over.
    #[error(
        "{device}: no hook is left: {}{}",
        joined(passed_over),
        advice(device, passed_over)
    )]
    NoHook {
        /// The device.
        device: String,
        /// The hooks, each with its reason.
        passed_over: Vec<PassedOver>,
    },
    /// The device was removed.
    #[error("{device}: the interface is gone")]
    Gone {
        /// The device.
        device: String,
    },
    /// `bpf(2)` failed.
    #[error("{device}: {source}")]
    Bpf {
        /// The device.
        device: String,
        /// The failure, with a hint if the reason is known.
        r#source: bpf::Error,
    },
    /// rtnetlink failed.
    #[error("{device}: {source}")]
    Netlink {
        /// The device.
        device: String,
        /// The failure.
        r#source: netlink::Error,
    },
}

impl HookError {
    /// Returns the error for a failed `bpf(2)` request about a device, which may have been removed.
    pub(crate) fn of_bpf(device: &str, source: bpf::Error) -> Self {
        let device = device.to_owned();
        match source.errno() {
            // The device was removed.
            Some(ENODEV) => Self::Gone { device },
            _ => Self::Bpf { device, source },
        }
    }

    /// Returns the error for a failed rtnetlink request about a device, which may have been removed.
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

/// Returns what to do if hooks were passed over. Empty if nothing helps.
fn advice(device: &str, passed_over: &[PassedOver]) -> String {
    let has = |is: fn(&PassedOver) -> bool| passed_over.iter().any(is);
    if has(|passed| matches!(passed.reason, Reason::VlanTagsTakenOut)) {
        format!(
            "; keep the tags in (ethtool -K {device} rxvlan off rx-vlan-stag-hw-parse off), or use xdp:{device}, which sees tagged \
             packets without their tags"
        )
    } else if has(|passed| matches!(passed.reason, Reason::OutlivesProcess))
        && !has(|passed| passed.place.is_xdp())
    {
        format!("; use xdp:{device}")
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use ringtap_sys::bpf::XdpMode;

    use super::*;
    use crate::hook::{HookPoint, Side};

    fn text(passed_over: Vec<(HookPoint, Reason)>) -> String {
        let passed_over = passed_over.into_iter();
        let error = HookError::NoHook {
            device: "eth0".to_owned(),
            passed_over: passed_over
                .map(|(place, reason)| PassedOver { place, reason })
                .collect(),
        };
        error.to_string()
    }

    #[test]
    fn what_helps_is_named() {
        let native = HookPoint::Xdp(XdpMode::Native);
        let clsact = || (HookPoint::Clsact(Side::Ingress), Reason::OutlivesProcess);
        let tagged = text(vec![(native, Reason::VlanTagsTakenOut), clsact()]);
        assert!(
            tagged.ends_with(
                "; keep the tags in (ethtool -K eth0 rxvlan off rx-vlan-stag-hw-parse off), or use xdp:eth0, which sees tagged \
                 packets without their tags"
            ),
            "{tagged}"
        );
        assert!(text(vec![clsact()]).ends_with("; use xdp:eth0"));
        let taken = text(vec![(native, Reason::XdpTaken { id: None }), clsact()]);
        assert!(taken.ends_with("after this process is killed"), "{taken}");
    }
}
