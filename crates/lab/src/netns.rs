//! Network namespaces and veth pairs for live tests. They are removed when dropped, even if the
//! test panics or its process is killed.
//!
//! A namespace here has its loopback interface up and IPv6 off, so that only the test's packets are
//! on its wires.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ringtap_sys::ethtool::Ethtool;
use ringtap_sys::netlink::{self, Name, Netlink};
pub use ringtap_sys::netlink::{LinkOptions, Veth};
use ringtap_sys::netns;
use ringtap_sys::packet::inject::Injector;

use crate::need::succeeds;

const READY_LIMIT: Duration = Duration::from_secs(10);
/// The time in which the kernel must report the carrier of loopback, for which it takes the lock of
/// all network configuration.
const LOCK_LIMIT: Duration = Duration::from_secs(10);
const PREFIX_V4: u8 = 24;
const PREFIX_V6: u8 = 64;

/// Returns whether the kernel's lock of network configuration is held forever, as after a fault within the
/// kernel. A process that queries an interface or creates a namespace then blocks forever and cannot be
/// killed. It is checked once, with a query in a child process that can be killed. On a kernel that answers
/// this query without the lock, the result is false.
#[must_use]
pub fn is_locked_up() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let mut question = Command::new("cat");
        question.arg("/sys/class/net/lo/carrier");
        let silent = question
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let Ok(mut asker) = silent.spawn() else {
            return false;
        };
        let limit = Instant::now() + crate::patience(LOCK_LIMIT);
        while let Ok(None) = asker.try_wait() {
            if Instant::now() > limit {
                // A child that has ended in the meantime is not killed.
                let _ = asker.kill();
                let _ = asker.wait();
                return true;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        false
    })
}

/// The reason why a wire could not be created.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// A namespace could not be created or set up.
    #[error(transparent)]
    Namespace(#[from] ringtap_sys::Error),
    /// An interface could not be created or set up.
    #[error("{device}: {source}")]
    Interface {
        /// The interface.
        device: String,
        /// The reason.
        r#source: netlink::Error,
    },
    /// An end never got a carrier.
    #[error("{0} got no carrier")]
    NoCarrier(String),
}

impl WireError {
    pub(crate) fn of(device: &str) -> impl FnOnce(netlink::Error) -> Self {
        let device = device.to_owned();
        |source| Self::Interface { device, source }
    }
}

pub(crate) type Wired<T> = Result<T, WireError>;

/// A network namespace for a test: a quiet [`netns::Namespace`].
#[derive(Clone, Debug)]
pub struct Namespace(netns::Namespace);

impl Namespace {
    /// Creates a namespace with loopback up and IPv6 off. Needs [`crate::Need::Root`].
    ///
    /// # Panics
    /// Panics if the system forbids it.
    #[must_use]
    pub fn new() -> Self {
        Self::try_new(false).expect("a network namespace can be made")
    }

    fn try_new(ipv6: bool) -> Wired<Self> {
        let namespace = netns::Namespace::new()?;
        let up = namespace
            .netlink()
            .and_then(|mut netlink| netlink.set_up("lo", true));
        up.map_err(WireError::of("lo"))?;
        if !ipv6 {
            namespace.disable_ipv6()?;
        }
        Ok(Self(namespace))
    }

    /// Runs a closure inside and waits for it; a panic in it fails the test.
    ///
    /// # Panics
    /// Panics if the namespace cannot be entered or the closure panics.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.0.run(work).expect("an own namespace can be entered")
    }

    /// Returns a client of rtnetlink for this namespace.
    ///
    /// # Panics
    /// Panics if the namespace cannot be entered.
    #[must_use]
    pub fn netlink(&self) -> Netlink {
        self.0
            .netlink()
            .expect("an own namespace can be configured")
    }

    /// Returns a command that will run inside, to be completed by the caller.
    ///
    /// The program is also searched in the `sbin` folders.
    #[must_use]
    pub fn command(&self, program: &str) -> Command {
        let path = crate::need::find_tool(program).unwrap_or_else(|| PathBuf::from(program));
        let mut command = Command::new(path);
        self.0.command(&mut command);
        command
    }

    /// Runs a program inside to its end and returns its output.
    ///
    /// # Panics
    /// Panics if the program cannot be started or fails; the message contains its output.
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

/// Options of a pair.
#[derive(Clone, Copy, Debug)]
pub struct VethOptions {
    /// Addresses in 10.99.0.0/24 on both sides.
    pub ipv4: bool,
    /// IPv6 on, addresses in fd99::/64. The kernel then sends multicast listener reports on its
    /// own.
    pub ipv6: bool,
    /// Each side has a permanent entry for the other's MAC address, so that there is no ARP on the
    /// wire.
    pub static_neighbours: bool,
    /// The number of receive and transmit queues of each end.
    pub queues: Option<u32>,
    /// The largest payload of a frame, in bytes.
    pub mtu: Option<u32>,
    /// Processors, a bit for each, that handle packets received at the right end (RPS; the variable
    /// `net/core/rps_default_mask` of its namespace, Linux 6.4).
    pub receive_mask: Option<u64>,
}

impl Default for VethOptions {
    /// Returns IPv4 only, static neighbours, one queue, 1500 bytes.
    fn default() -> Self {
        Self {
            ipv4: true,
            ipv6: false,
            static_neighbours: true,
            queues: Some(1),
            mtu: None,
            receive_mask: None,
        }
    }
}

/// One end of a [`VethPair`]: a namespace with one Ethernet interface in it.
#[derive(Clone, Debug)]
pub struct Side {
    /// The namespace of the interface.
    pub namespace: Namespace,
    /// The interface's name.
    pub device: String,
    /// Its MAC address.
    pub mac: [u8; 6],
    /// Its IPv4 address, if the pair has IPv4.
    pub ipv4: Ipv4Addr,
    /// Its IPv6 address, if the pair has IPv6.
    pub ipv6: Ipv6Addr,
}

impl Side {
    pub(crate) fn new(number: u8, options: &VethOptions) -> Wired<Self> {
        Ok(Self {
            namespace: Namespace::try_new(options.ipv6)?,
            device: format!("veth{}", number - 1),
            mac: [0x02, 0x99, 0, 0, 0, number],
            ipv4: Ipv4Addr::new(10, 99, 0, number),
            ipv6: Ipv6Addr::new(0xfd99, 0, 0, 0, 0, 0, 0, number.into()),
        })
    }

    /// Runs a closure in the side's namespace.
    ///
    /// # Panics
    /// The same as for [`Namespace::run`].
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.namespace.run(work)
    }

    /// Sends frames out of the device, each by a call of its own.
    ///
    /// # Panics
    /// Panics if the system forbids it, or the device is down.
    pub fn inject(&self, frames: &[Vec<u8>]) {
        let index = self.namespace.netlink().index(&self.device);
        let index = index.expect("it exists");
        let injector = self.run(|| Injector::open(index).expect("root"));
        for frame in frames {
            injector.send(frame).expect("the end is up");
        }
    }

    /// Keeps VLAN tags in the packet, where a program at XDP and a stealing clsact see them: before Linux 6.8 the driver
    /// always takes them out otherwise.
    ///
    /// # Panics
    /// Panics if ethtool(8) is not installed.
    pub fn keep_tags(&self) {
        let device = &*self.device;
        let options = [
            "-K",
            device,
            "rxvlan",
            "off",
            "rx-vlan-stag-hw-parse",
            "off",
        ];
        self.namespace.output("ethtool", &options);
    }

    /// Makes this end of a veth pair poll, by enabling receive offload. Otherwise it loses frames
    /// without a socket buffer that are redirected into it.
    ///
    /// # Errors
    /// Returns an error if the system forbids it.
    pub fn take_frames(&self) -> Wired<()> {
        let name = Name::new(self.device.as_bytes());
        let switched = (*self.namespace).run(|| {
            let mut ethtool = Ethtool::open()?;
            ethtool.set_receive_offload(&name, true).map(|_| ())
        });
        Ok(switched??)
    }

    fn link_options(&self, options: &VethOptions) -> LinkOptions {
        LinkOptions {
            mac: Some(self.mac),
            mtu: options.mtu,
            rx_queues: options.queues,
            tx_queues: options.queues,
        }
    }

    pub(crate) fn netlink(&self) -> Wired<Netlink> {
        let opened = (*self.namespace).netlink();
        opened.map_err(WireError::of(&self.device))
    }

    pub(crate) fn configure(&self, other: &Self, options: &VethOptions) -> Wired<()> {
        if options.ipv6 {
            self.silence_ipv6()?;
        }
        let families: [(bool, IpAddr, u8, IpAddr); 2] = [
            (options.ipv4, self.ipv4.into(), PREFIX_V4, other.ipv4.into()),
            (options.ipv6, self.ipv6.into(), PREFIX_V6, other.ipv6.into()),
        ];
        let mut netlink = self.netlink()?;
        let mut configure = || {
            netlink.set_up(&self.device, true)?;
            for (_, address, prefix, neighbour) in families.iter().filter(|family| family.0) {
                netlink.add_address(&self.device, *address, *prefix)?;
                if options.static_neighbours {
                    netlink.add_neighbour(&self.device, *neighbour, other.mac)?;
                }
            }
            Ok(())
        };
        configure().map_err(WireError::of(&self.device))
    }

    /// Waits until no packet is lost any more on its way to or from this end.
    pub(crate) fn wait_until_ready(&self, options: &VethOptions) -> Wired<()> {
        let mut netlink = self.netlink()?;
        let failed = || WireError::of(&self.device);
        let up = netlink.wait_until_up(&self.device, crate::patience(READY_LIMIT));
        let mut is_ready = up.map_err(failed())?;
        if options.ipv6 {
            let local = netlink.wait_until_local(self.ipv6.into(), crate::patience(READY_LIMIT));
            is_ready &= local.map_err(failed())?;
        }
        if is_ready {
            Ok(())
        } else {
            Err(WireError::NoCarrier(self.device.clone()))
        }
    }

    /// Prevents router solicitations and a link-local address, which would be announced.
    fn silence_ipv6(&self) -> Wired<()> {
        let device = &self.device;
        let variables = [
            ("accept_ra", "0"),
            ("router_solicitations", "0"),
            ("addr_gen_mode", "1"),
        ];
        for (variable, value) in variables {
            let path = format!("net/ipv6/conf/{device}/{variable}");
            self.namespace.set_sysctl(&path, value)?;
        }
        Ok(())
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
    /// Creates a pair with the default options, both ends up and with carrier.
    ///
    /// # Panics
    /// Panics if the system forbids it.
    #[must_use]
    pub fn new() -> Self {
        Self::with(&VethOptions::default())
    }

    /// Creates a pair with these options.
    ///
    /// # Panics
    /// Panics if the system forbids it.
    #[must_use]
    pub fn with(options: &VethOptions) -> Self {
        Self::try_with(options).unwrap_or_else(|error| panic!("a wire: {error}"))
    }

    /// Creates a pair with these options.
    ///
    /// # Errors
    /// Returns an error if the system forbids it.
    pub fn try_with(options: &VethOptions) -> Wired<Self> {
        let (left, right) = (Side::new(1, options)?, Side::new(2, options)?);
        if let Some(mask) = options.receive_mask {
            // The mask applies to devices that are created later.
            let mask = format!("{mask:x}");
            right
                .namespace
                .set_sysctl("net/core/rps_default_mask", &mask)?;
        }
        let made = left.netlink()?.create_veth(&Veth {
            name: left.device.as_bytes(),
            options: left.link_options(options),
            peer_name: right.device.as_bytes(),
            peer_options: right.link_options(options),
            peer_namespace: Some(std::os::fd::AsFd::as_fd(&*right.namespace)),
        });
        made.map_err(WireError::of(&left.device))?;
        Self::configured(left, right, options)
    }

    /// Configures two joined devices, and waits until they are ready.
    pub(crate) fn configured(left: Side, right: Side, options: &VethOptions) -> Wired<Self> {
        left.configure(&right, options)?;
        right.configure(&left, options)?;
        for side in [&left, &right] {
            side.wait_until_ready(options)?;
        }
        Ok(Self { left, right })
    }
}

impl Default for VethPair {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns whether the kernel has VLANs, by creating one, because the kernel may also load a module for it.
pub(crate) fn kernel_has_vlans() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let mut netlink = Namespace::new().netlink();
        let made = netlink.create_veth(&Veth::new("veth0", "veth1"));
        made.and_then(|()| netlink.create_vlan("veth0", "vlan1", 1, false))
            .is_ok()
    })
}

/// Returns whether the kernel has the kind, in the same way.
pub(crate) fn kernel_has(kind: &str) -> bool {
    let mut netlink = Namespace::new().netlink();
    let made = netlink.create(kind, "probe0", &LinkOptions::default());
    made.is_ok()
}

/// Returns whether the kernel has the kind, with `ip`, whose syntax covers kinds that need parameters. The
/// answers are cached, because a suite asks for each of its tests.
pub(crate) fn kernel_makes(words: &'static str) -> bool {
    static ANSWERS: Mutex<BTreeMap<&str, bool>> = Mutex::new(BTreeMap::new());
    let mut answers = ANSWERS.lock().unwrap_or_else(PoisonError::into_inner);
    *answers.entry(words).or_insert_with(|| {
        let namespace = Namespace::new();
        let made = namespace
            .netlink()
            .create_veth(&Veth::new("veth0", "veth1"));
        let mut command = namespace.command("ip");
        command.args(["link", "add", "link", "veth0", "name", "probe0", "type"]);
        // Some kinds take no lower device.
        let mut plain = namespace.command("ip");
        plain.args(["link", "add", "name", "probe0", "type"]);
        let succeeds = |command: &mut Command| succeeds(command.args(words.split(' ')));
        made.is_ok() && (succeeds(&mut command) || succeeds(&mut plain))
    })
}
