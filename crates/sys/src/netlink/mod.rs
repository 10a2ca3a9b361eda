//! An rtnetlink client for interfaces, addresses, routes and BPF filters: lists, creates, changes,
//! removes.
//!
//! The client of `NETLINK_ROUTE` is synchronous, with one request at a time. [`LinkWatch`] reports
//! when interfaces change. No state is kept between calls, so two calls may see two states of the
//! system.
//!
//! Data in: names, indices, addresses. Data out: [`Link`]s, and errors with the request's name, the
//! error number and the kernel's own explanation.
//!
//! Source: rtnetlink(7), `include/uapi/linux/{rtnetlink,if_link,if_addr,neighbour}.h`.

mod address;
mod configure;
mod counters;
mod link;
mod message;
mod name;
mod netdev;
mod scheduler;
mod socket;
mod traffic_control;
mod watch;

pub use address::{Address, DefaultRoute, WIDE_IPV4, WIDE_IPV6, WideRoute};
pub use configure::{LinkOptions, Netlink, Veth};
pub use counters::Counters;
pub use link::{Link, OperationalState, Vlan, XdpMode, XdpProgram};
pub use name::{ALTNAME_MAX, NAME_MAX, Name, escape};
pub use netdev::XdpFeatures;
pub use scheduler::Scheduler;
pub use traffic_control::BpfFilter;
pub use watch::LinkWatch;

/// The reason why a netlink request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel rejected the request, or a socket call failed.
    #[error(transparent)]
    Call(#[from] crate::Error),
    /// The reply does not have the prescribed format.
    #[error("malformed netlink reply: {what} at byte {offset}: {found} of {expected} bytes")]
    Malformed {
        /// The part that was parsed.
        what: &'static str,
        /// Its offset in the message, in bytes.
        offset: usize,
        /// Its prescribed length, in bytes.
        expected: usize,
        /// Its actual length, in bytes.
        found: usize,
    },
    /// The tables changed during each attempt to read them.
    #[error("{call}: the tables changed during each of {attempts} attempts")]
    Interrupted {
        /// The request.
        call: &'static str,
        /// The number of attempts.
        attempts: usize,
    },
    /// A name that is invalid for interfaces.
    #[error("interface name {name:?}: must have 1 to {limit} bytes, none of them zero")]
    Name {
        /// The name.
        name: Name,
        /// The most bytes that it may have.
        limit: usize,
    },
    /// There is no such interface.
    #[error("no interface {name:?}")]
    NoLink {
        /// The name that was looked for.
        name: Name,
    },
}

impl Error {
    /// Returns the error number, if the operating system gave one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Call(error) => error.errno(),
            Self::NoLink { .. } => Some(libc::ENODEV),
            _ => None,
        }
    }
}

/// The result of a netlink request.
pub type Result<T> = std::result::Result<T, Error>;
