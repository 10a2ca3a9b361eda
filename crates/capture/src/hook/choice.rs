//! The candidate hooks, their order, and why one was passed over.

use std::fmt;

use ringtap_sys::bpf::XdpMode;
use ringtap_sys::netlink;

use super::{Side, StampReader};
use crate::options::{Direction, Mode};

/// A hook in the path of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HookPoint {
    /// XDP, for received packets: in the driver, before the kernel allocates a socket buffer (native), or
    /// directly after (generic). One program per device; the link needs Linux 5.9.
    Xdp(XdpMode),
    /// A tcx chain (Linux 6.6): received packets before the stack sees them, sent ones before the packet
    /// scheduler. A device can have many programs.
    Tcx(Side),
    /// The same place on kernels without tcx, through the qdisc `clsact`. It is not bound to the process.
    Clsact(Side),
}

impl HookPoint {
    /// Returns whether it sees received packets (else sent ones).
    #[must_use]
    pub fn is_ingress(self) -> bool {
        match self {
            Self::Xdp(_) => true,
            Self::Tcx(side) | Self::Clsact(side) => side == Side::Ingress,
        }
    }

    /// Returns whether its programs get `struct xdp_md` (else `struct __sk_buff`).
    #[must_use]
    pub fn is_xdp(self) -> bool {
        matches!(self, Self::Xdp(_))
    }

    /// Returns the verdict that lets a packet continue: `XDP_PASS`, or `TCX_NEXT`, which leaves the verdict
    /// to the next programs.
    #[must_use]
    pub fn verdict_pass(self) -> i32 {
        if self.is_xdp() { 2 } else { -1 }
    }

    /// Returns the verdict that ends a packet here: `XDP_DROP` or `TCX_DROP`.
    #[must_use]
    pub fn verdict_drop(self) -> i32 {
        if self.is_xdp() { 1 } else { 2 }
    }
}

impl fmt::Display for HookPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Xdp(XdpMode::Native) => f.write_str("XDP in the driver"),
            Self::Xdp(XdpMode::Generic) => f.write_str("generic XDP"),
            Self::Xdp(XdpMode::Auto) => f.write_str("XDP"),
            Self::Tcx(side) => write!(f, "tcx {side}"),
            Self::Clsact(side) => write!(f, "clsact {side}"),
        }
    }
}

/// A requested hook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HookChoice {
    /// The best for the mode: tcx to copy, XDP to steal.
    #[default]
    Automatic,
    /// XDP for received packets; tcx if the driver has none.
    Xdp,
    /// XDP and nothing else: in the driver, else generic.
    XdpAlone,
    /// Generic XDP, even if the driver has its own.
    XdpGeneric,
    /// tcx.
    Tcx,
}

impl HookChoice {
    /// Returns whether the request may lead to a program at XDP.
    pub(crate) fn may_be_xdp(self) -> bool {
        self != Self::Tcx
    }
}

/// A request to attach.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// The hook for received packets.
    pub hook: HookChoice,
    /// Whether packets also go on to the host.
    pub mode: Mode,
    /// The direction of packets. Only received packets can be stolen.
    pub direction: Direction,
    /// Whether to steal despite [`super::steal_hazards`].
    pub force: bool,
    /// Whether the caller's XDP programs read a VLAN tag that the driver removed from the packet. If not, XDP
    /// is passed over if the driver does that.
    pub reads_tags_at_xdp: bool,
    /// Reads the adapter's stamps, if the caller's programs need them. Places without them are passed over.
    pub stamps: Option<StampReader>,
}

impl Wanted {
    /// Returns the candidate places for one direction, best first.
    pub(super) fn candidates(&self, side: Side) -> Vec<HookPoint> {
        use HookChoice::{Automatic, Tcx, Xdp, XdpAlone, XdpGeneric};
        if !self.covers(side) {
            return Vec::new();
        }
        let (tcx, clsact) = (HookPoint::Tcx(side), HookPoint::Clsact(side));
        let native = HookPoint::Xdp(XdpMode::Native);
        let generic = HookPoint::Xdp(XdpMode::Generic);
        if side == Side::Egress {
            return vec![tcx, clsact];
        }
        match (self.hook, self.mode) {
            (Automatic, Mode::Copy) => vec![tcx, clsact, native, generic],
            (Automatic, Mode::Steal) | (Xdp, _) => vec![native, tcx, clsact, generic],
            (XdpAlone, _) => vec![native, generic],
            (XdpGeneric, _) => vec![generic, tcx, clsact],
            (Tcx, _) => vec![tcx, clsact],
        }
    }

    fn covers(&self, side: Side) -> bool {
        match side {
            Side::Ingress => self.direction != Direction::Out,
            Side::Egress => self.direction != Direction::In && self.mode == Mode::Copy,
        }
    }
}

/// A hook that was passed over.
#[derive(Debug)]
pub struct PassedOver {
    /// The hook.
    pub place: HookPoint,
    /// The reason.
    pub reason: Reason,
}

impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not at {}: {}", self.place, self.reason)
    }
}

/// The reason why a hook was passed over.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// XDP accepts one program per device, and there is one.
    #[error("another XDP program{} is attached", Number(*.id))]
    XdpTaken {
        /// Its id, as `bpftool prog` lists it.
        id: Option<u32>,
    },
    /// The driver does not support it.
    #[error("the driver rejects the program: {0}")]
    DriverRefuses(ringtap_sys::bpf::Error),
    /// Tags would be missing from the packets.
    #[error("the driver takes VLAN tags out of packets before XDP sees them")]
    VlanTagsTakenOut,
    /// Programs there do not get the time at which the adapter received a packet.
    #[error("the adapter's timestamps are not available there")]
    NoAdapterStamps,
    /// The kernel is older than 6.6, or was built without it.
    #[error("the kernel has no tcx (Linux 6.6)")]
    NoTcx,
    /// The kernel was built without the qdisc or its filters, or another qdisc is in its place.
    #[error(transparent)]
    NoClsact(netlink::Error),
    /// A killed process would leave a stealing program behind.
    #[error("it would go on stealing packets after this process is killed")]
    OutlivesProcess,
}

struct Number(Option<u32>);

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |id| write!(f, " (number {id})"))
    }
}

/// Requested packets that are not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Uncovered {
    /// Stealing is for received packets.
    #[error("packets that the host sends: only received ones can be stolen")]
    SentWhileStealing,
    /// There is no hook for them.
    #[error("packets that the host sends: the kernel has neither tcx nor clsact")]
    SentWithoutHook,
    /// Loopback shows each packet going out and coming in.
    #[error("the second copy of each packet on loopback")]
    SentOnLoopback,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(wanted: &Wanted, side: Side) -> Vec<String> {
        let places = wanted.candidates(side);
        places.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_order_follows_hook_and_mode() {
        let copy = Wanted::default();
        let driver = "XDP in the driver";
        let cases: [(HookChoice, Mode, &[&str]); 4] = [
            (
                HookChoice::Automatic,
                Mode::Copy,
                &["tcx ingress", "clsact ingress", driver, "generic XDP"],
            ),
            (
                HookChoice::Automatic,
                Mode::Steal,
                &[driver, "tcx ingress", "clsact ingress", "generic XDP"],
            ),
            (
                HookChoice::Tcx,
                Mode::Copy,
                &["tcx ingress", "clsact ingress"],
            ),
            (
                HookChoice::XdpGeneric,
                Mode::Copy,
                &["generic XDP", "tcx ingress", "clsact ingress"],
            ),
        ];
        for (hook, mode, expected) in cases {
            let wanted = Wanted { hook, mode, ..copy };
            assert_eq!(names(&wanted, Side::Ingress), expected, "{hook:?} {mode:?}");
        }
    }

    #[test]
    fn directions_choose_sides_and_stealing_takes_received_packets() {
        let sides = |direction, mode| {
            let wanted = Wanted {
                direction,
                mode,
                ..Wanted::default()
            };
            [Side::Ingress, Side::Egress].map(|side| !wanted.candidates(side).is_empty())
        };
        assert_eq!(sides(Direction::Both, Mode::Copy), [true, true]);
        assert_eq!(sides(Direction::In, Mode::Copy), [true, false]);
        assert_eq!(sides(Direction::Out, Mode::Copy), [false, true]);
        assert_eq!(sides(Direction::Both, Mode::Steal), [true, false]);
        assert_eq!(sides(Direction::Out, Mode::Steal), [false, false]);
    }
}
