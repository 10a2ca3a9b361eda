//! Hooks: the places of ringtap's programs on a device, and how they are attached.
//!
//! This module chooses a hook with its reasons, attaches and replaces programs, and keeps a stealing program
//! away from an interface that the host needs. It writes no program; the caller supplies one for each
//! [`HookPoint`].
//!
//! Every attached program ends with its owner. Link fds hold programs at XDP and tcx: when the process dies,
//! the kernel detaches them. On kernels without tcx (before 6.6) the qdisc `clsact` is used, which is not
//! bound to a process. There the owner removes its program when it ends, and the next owner removes one that
//! a killed process has left (see [`HookPoint::Clsact`]).
//!
//! A [`HookDevice`], a [`Wanted`] and a function that loads a program for a place go in. [`Attached`] comes
//! out, or the reason for a failure.

mod attach;
mod choice;
mod clsact;
mod device;
mod error;
mod guard;
mod sight;
mod stamps;
mod tags;
mod thieves;

pub(crate) use attach::consent;
pub use attach::{Attached, Hook, Standing, attach};
pub use choice::{HookChoice, HookPoint, PassedOver, Reason, Uncovered, Wanted};
pub use device::HookDevice;
pub(crate) use device::is_realtime_kernel;
pub use error::HookError;
pub(crate) use guard::hazards;
pub use guard::{StealHazard, steal_hazards};
pub use ringtap_sys::bpf::TcxSide as Side;
pub(crate) use sight::Sight;
pub use stamps::StampReader;
pub use tags::TagRestorer;
pub(crate) use thieves::{Announced, News, Thieves};
