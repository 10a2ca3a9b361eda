//! Guards for live tests: network namespaces and veth pairs that go when they are dropped, also
//! when the test panics or its process is killed.
//!
//! A namespace here has its loopback interface up and IPv6 off, so that nothing is on its wires
//! but what the test sends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::time::Duration;

use ringtap_sys::netlink::Netlink;
pub use ringtap_sys::netlink::{LinkOptions, Veth};
use ringtap_sys::netns;

const READY_LIMIT: Duration = Duration::from_secs(10);
const PREFIX_V4: u8 = 24;
const PREFIX_V6: u8 = 64;

/// A network namespace of the test's own: everything of [`netns::Namespace`], made quiet.
#[derive(Clone, Debug)]
pub struct Namespace(netns::Namespace);

impl Namespace {
    /// A namespace with loopback up and IPv6 off. Needs [`crate::Need::Root`].
    ///
    /// # Panics
    /// The system forbids it.
    #[must_use]
    pub fn new() -> Self {
        let namespace = Self::with_ipv6();
        namespace
            .disable_ipv6()
            .expect("IPv6 can be turned off in an own namespace");
        namespace
    }

    /// The same with IPv6 left on: interfaces announce themselves on their wires.
    ///
    /// # Panics
    /// The system forbids it.
    #[must_use]
    pub fn with_ipv6() -> Self {
        let namespace = Self(netns::Namespace::new().expect("a network namespace can be made"));
        namespace
            .netlink()
            .set_up("lo", true)
            .expect("loopback can be set up");
        namespace
    }

    /// Runs a closure inside and waits for it; a panic in it fails the test.
    ///
    /// # Panics
    /// The namespace cannot be entered, or the closure panics.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.0.run(work).expect("an own namespace can be entered")
    }

    /// A client of rtnetlink for this namespace.
    ///
    /// # Panics
    /// The namespace cannot be entered.
    #[must_use]
    pub fn netlink(&self) -> Netlink {
        self.0
            .netlink()
            .expect("an own namespace can be configured")
    }

    /// A command that will run inside, to be completed by the caller.
    ///
    /// The program is looked for in the `sbin` folders as well.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let path = crate::need::find_tool(program).unwrap_or_else(|| PathBuf::from(program));
        let mut command = Command::new(path);
        self.0.command(&mut command);
        command
    }

    /// Runs a program inside to its end and returns what it wrote.
    ///
    /// # Panics
    /// The program cannot be started or fails; the message holds what it wrote.
    pub fn output(&self, program: &str, arguments: &[&str]) -> Output {
        let output = self.command(program).args(arguments).output();
        let output = output.unwrap_or_else(|error| panic!("{program}: {error}"));
        assert!(
            output.status.success(),
            "{program} {arguments:?}: {}\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        output
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self::new()
    }
}

impl Deref for Namespace {
    type Target = netns::Namespace;

    fn deref(&self) -> &netns::Namespace {
        &self.0
    }
}

/// How the pair is made.
#[derive(Clone, Copy, Debug)]
pub struct VethOptions {
    /// Addresses in 10.99.0.0/24 on both sides.
    pub ipv4: bool,
    /// IPv6 on, addresses in fd99::/64. The kernel then sends multicast listener reports of its
    /// own accord.
    pub ipv6: bool,
    /// Each side knows the other's MAC address for good, so that there is no ARP on the wire.
    pub static_neighbours: bool,
    /// Receive and transmit queues of each end.
    pub queues: Option<u32>,
    /// Largest payload of a frame, in bytes.
    pub mtu: Option<u32>,
}

impl Default for VethOptions {
    /// IPv4 only, static neighbours, one queue, 1500 bytes.
    fn default() -> Self {
        Self {
            ipv4: true,
            ipv6: false,
            static_neighbours: true,
            queues: Some(1),
            mtu: None,
        }
    }
}

/// One end of a [`VethPair`]: a namespace with one Ethernet interface in it.
#[derive(Clone, Debug)]
pub struct Side {
    /// Where the interface lives.
    pub namespace: Namespace,
    /// The interface's name.
    pub device: String,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Its IPv4 address, where the pair has such.
    pub ipv4: Ipv4Addr,
    /// Its IPv6 address, where the pair has such.
    pub ipv6: Ipv6Addr,
}

impl Side {
    fn new(number: u8, options: &VethOptions) -> Self {
        let namespace = if options.ipv6 {
            Namespace::with_ipv6()
        } else {
            Namespace::new()
        };
        Self {
            namespace,
            device: format!("veth{}", number - 1),
            mac: [0x02, 0x99, 0, 0, 0, number],
            ipv4: Ipv4Addr::new(10, 99, 0, number),
            ipv6: Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, number.into()),
        }
    }

    /// Runs a closure in the side's namespace.
    ///
    /// # Panics
    /// As [`Namespace::run`].
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.namespace.run(work)
    }

    fn link_options(&self, options: &VethOptions) -> LinkOptions {
        LinkOptions {
            mac: Some(self.mac),
            mtu: options.mtu,
            rx_queues: options.queues,
            tx_queues: options.queues,
        }
    }

    fn configure(&self, other: &Self, options: &VethOptions) {
        let mut netlink = self.namespace.netlink();
        if options.ipv6 {
            self.silence_ipv6();
        }
        netlink
            .set_up(&self.device, true)
            .expect("an end can be set up");
        let families = [
            (
                options.ipv4,
                IpAddr::from(self.ipv4),
                PREFIX_V4,
                IpAddr::from(other.ipv4),
            ),
            (
                options.ipv6,
                IpAddr::from(self.ipv6),
                PREFIX_V6,
                IpAddr::from(other.ipv6),
            ),
        ];
        for (wanted, address, prefix, neighbour) in families {
            if !wanted {
                continue;
            }
            netlink
                .add_address(&self.device, address, prefix)
                .expect("an address can be added");
            if options.static_neighbours {
                netlink
                    .add_neighbour(&self.device, neighbour, other.mac)
                    .expect("a neighbour can be added");
            }
        }
    }

    /// Waits until nothing is lost any more on its way to or from this end.
    fn wait_until_ready(&self, options: &VethOptions) {
        let mut netlink = self.namespace.netlink();
        let up = netlink
            .wait_until_up(&self.device, READY_LIMIT)
            .expect("the end exists");
        assert!(up, "{} got no carrier", self.device);
        if options.ipv6 {
            let local = netlink.wait_until_local(self.ipv6.into(), READY_LIMIT);
            assert!(
                local.expect("a routing table"),
                "{} is not received on",
                self.ipv6
            );
        }
    }

    /// No router solicitations and no link-local address that would be announced.
    fn silence_ipv6(&self) {
        let device = &self.device;
        let variables = [
            ("accept_ra", "0"),
            ("router_solicitations", "0"),
            ("addr_gen_mode", "1"),
        ];
        for (variable, value) in variables {
            self.namespace
                .set_sysctl(&format!("net/ipv6/conf/{device}/{variable}"), value)
                .expect("the kernel has IPv6");
        }
    }
}

/// Two namespaces joined by a virtual wire: 10.99.0.1 on `left`, 10.99.0.2 on `right`.
#[derive(Clone, Debug)]
pub struct VethPair {
    /// The side of 10.99.0.1, device `veth0`.
    pub left: Side,
    /// The side of 10.99.0.2, device `veth1`.
    pub right: Side,
}

impl VethPair {
    /// A pair with the default options, both ends up and with carrier.
    ///
    /// # Panics
    /// The system forbids it.
    #[must_use]
    pub fn new() -> Self {
        Self::with(&VethOptions::default())
    }

    /// A pair with chosen options.
    ///
    /// # Panics
    /// The system forbids it.
    #[must_use]
    pub fn with(options: &VethOptions) -> Self {
        let (left, right) = (Side::new(1, options), Side::new(2, options));
        let mut netlink = left.namespace.netlink();
        netlink
            .create_veth(&Veth {
                name: left.device.as_bytes(),
                options: left.link_options(options),
                peer_name: right.device.as_bytes(),
                peer_options: right.link_options(options),
                peer_namespace: Some(std::os::fd::AsFd::as_fd(&*right.namespace)),
            })
            .expect("a veth pair can be made");
        left.configure(&right, options);
        right.configure(&left, options);
        for side in [&left, &right] {
            side.wait_until_ready(options);
        }
        Self { left, right }
    }
}

impl Default for VethPair {
    fn default() -> Self {
        Self::new()
    }
}

/// Asked of the kernel by making one, because it may also load what it lacks.
pub(crate) fn kernel_has_vlans() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let mut netlink = Namespace::new().netlink();
        let made = netlink.create_veth(&Veth::new("veth0", "veth1"));
        made.and_then(|()| netlink.create_vlan("veth0", "vlan1", 1, false))
            .is_ok()
    })
}
