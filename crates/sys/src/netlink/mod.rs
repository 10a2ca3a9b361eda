//! Interfaces, addresses, routes and BPF filters by rtnetlink: listed, made, changed, removed.
//!
//! What it is: a synchronous client of `NETLINK_ROUTE`, one request at a time, and a watch that says
//! when interfaces change. What it is not: it keeps no state; two calls may see two states of the system.
//!
//! Data in: names, indices, addresses. Data out: [`Link`]s and errors that carry the request's
//! name, the error number and the kernel's own explanation.
//!
//! Source: rtnetlink(7), `include/uapi/linux/{rtnetlink,if_link,if_addr,neighbour}.h`.

mod address;
mod configure;
mod counters;
mod link;
mod message;
mod name;
mod netdev;
mod socket;
mod traffic_control;
mod watch;

pub use address::{Address, DefaultRoute, WIDE_IPV4, WIDE_IPV6, WideRoute};
pub use configure::{LinkOptions, Netlink, Veth};
pub use counters::Counters;
pub use link::{Link, OperationalState, Vlan, XdpMode, XdpProgram};
pub use name::{ALTNAME_MAX, NAME_MAX, Name, escape};
pub use netdev::XdpFeatures;
pub use traffic_control::BpfFilter;
pub use watch::LinkWatch;

/// Why a netlink request failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel refused the request, or a socket call failed.
    #[error(transparent)]
    Call(#[from] crate::Error),
    /// The answer does not have the form that the interface prescribes.
    #[error("malformed netlink answer: {what} at byte {offset}: {found} of {expected} bytes")]
    Malformed {
        /// The part that was being read.
        what: &'static str,
        /// Where it lies in the message, in bytes.
        offset: usize,
        /// Its length by the interface, in bytes.
        expected: usize,
        /// Its length as found, in bytes.
        found: usize,
    },
    /// The tables changed during each attempt to read them.
    #[error("{call}: the tables changed during each of {attempts} attempts")]
    Interrupted {
        /// The request.
        call: &'static str,
        /// How many attempts were made.
        attempts: usize,
    },
    /// A name that no interface can have.
    #[error("interface name {name:?}: must have 1 to {limit} bytes, none of them zero")]
    Name {
        /// The name.
        name: Name,
        /// Most bytes that it may have.
        limit: usize,
    },
    /// No such interface.
    #[error("no interface {name:?}")]
    NoLink {
        /// The name that was looked for.
        name: Name,
    },
}

impl Error {
    /// The error number, where the operating system gave one.
    #[must_use]
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Call(error) => error.errno(),
            Self::NoLink { .. } => Some(libc::ENODEV),
            _ => None,
        }
    }
}

/// What a netlink request returns.
pub type Result<T> = std::result::Result<T, Error>;
