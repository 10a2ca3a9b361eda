//! Hooks: where programs of ringtap stand on a device, and how they get there.
//!
//! What it is: the choice of a hook with its reasons, programs attached and replaced, and the guard
//! that keeps a stealing program away from the interface that a host lives by. What it is not: it
//! writes no program; the caller hands in one for each [`HookPoint`].
//!
//! Whatever is attached ends with its owner. Programs at XDP and tcx are held by link fds: the
//! process dies, the kernel detaches. On kernels without tcx (before 6.6) the qdisc `clsact` stands
//! in, which nothing binds to a process: there the owner takes its program away when it ends, and
//! what a killed one has left is taken away by the next (see [`HookPoint::Clsact`]).
//!
//! Data in: a [`HookDevice`], a [`Wanted`], a function that loads a program for a place. Data out:
//! [`Attached`], or the reason why not.

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
pub(crate) use sight::{Change, Sight};
pub use stamps::StampReader;
pub use tags::TagRestorer;
pub(crate) use thieves::{Announced, News, Thieves};
