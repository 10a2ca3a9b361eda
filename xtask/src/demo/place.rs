//! The place of the demo: a network of its own, if the system allows it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use ringtap_sys::netns::enter_user_namespace;
use ringtap_testkit::Need;
use ringtap_testkit::netns::{VethOptions, VethPair};

/// The environment of the demo.
pub(super) enum Place {
    /// Two namespaces and a cable between them, and by which right.
    Network {
        pair: Box<VethPair>,
        right: &'static str,
    },
    /// Nothing live, with the reason.
    FileOnly(String),
}

impl Place {
    /// Finds out; to be called before any thread starts.
    pub(super) fn find() -> Self {
        if let Some(reason) = Need::Interfaces.unmet() {
            return Self::FileOnly(reason);
        }
        if Need::Root.unmet().is_none() {
            return Self::network("as root");
        }
        match enter_user_namespace() {
            Ok(()) => Self::network("without root, in a user namespace of its own"),
            Err(error) => Self::FileOnly(error.to_string()),
        }
    }

    fn network(right: &'static str) -> Self {
        // Without fixed neighbours there is ARP to be seen.
        let options = VethOptions {
            static_neighbours: false,
            ..VethOptions::default()
        };
        match catch_unwind(AssertUnwindSafe(|| Box::new(VethPair::with(&options)))) {
            Ok(pair) => Self::Network { pair, right },
            Err(_) => Self::FileOnly("no network namespaces with a veth pair can be made".into()),
        }
    }
}
