//! Two hosts joined by a device of each kind: how it is made, with `ip` of iproute2.

use std::net::Ipv4Addr;
use std::os::fd::AsFd as _;
use std::process::Command;

use ringtap_testkit::Need;
use ringtap_testkit::adapters::{self, Adapter};
use ringtap_testkit::netns::{LinkOptions, Side, Veth, VethOptions, VethPair};
use ringtap_testkit::process::Running;

/// The device that a kind's commands make, on both sides.
pub(crate) const MADE: &str = "k0";
/// The second wire of devices that join several.
const SECOND: &str = "second0";

/// Connects both wires to the device.
const JOIN_WIRES: [&str; 4] = [
    "link set veth0 down",
    "link set second0 down",
    "link set veth0 master k0",
    "link set second0 master k0",
];

/// The host that answers at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// The right side, by a device made like the left one.
    Across,
    /// The host itself, over the device.
    Itself,
    /// None: sent packets vanish.
    Nobody,
}

/// A kind of device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// The words after `type` with which the kernel is asked for the kind. Empty for kinds that every kernel
    /// has.
    pub(crate) asked: Option<&'static str>,
    pub(crate) tool: Option<&'static str>,
    /// Arguments of `ip`, a command each. `{own}` and `{peer}` are the addresses of the veth pair
    /// below, whose device is `veth0` on both sides.
    pub(crate) commands: &'static [&'static str],
    /// The device to capture on.
    pub(crate) device: &'static str,
    pub(crate) peer: Peer,
    /// Whether there is a second wire.
    pub(crate) two_wires: bool,
    /// The driver of the adapters that stand for the veth pair.
    pub(crate) adapter: Option<&'static str>,
}

const PLAIN: Kind = Kind {
    name: "",
    asked: None,
    tool: None,
    commands: &[],
    device: MADE,
    peer: Peer::Across,
    two_wires: false,
    adapter: None,
};

/// The wire itself, called as the devices of other kinds are.
const RENAMED: [&str; 2] = ["link set veth0 down", "link set veth0 name k0"];
const TAGGED: [&str; 1] = ["link add link veth0 name k0 type vlan id 5"];

/// All kinds.
pub(crate) const KINDS: &[Kind] = &[
    Kind {
        name: "veth",
        commands: &RENAMED,
        ..PLAIN
    },
    Kind {
        name: "loopback",
        device: "lo",
        peer: Peer::Itself,
        ..PLAIN
    },
    Kind {
        name: "dummy",
        asked: Some("dummy"),
        commands: &["link add k0 type dummy"],
        peer: Peer::Nobody,
        ..PLAIN
    },
    Kind {
        name: "bond_active_backup",
        asked: Some("bond mode active-backup"),
        commands: &["link add k0 type bond mode active-backup miimon 50"],
        two_wires: true,
        ..PLAIN
    },
    Kind {
        name: "bond_balance_rr",
        asked: Some("bond mode balance-rr"),
        commands: &["link add k0 type bond mode balance-rr miimon 50"],
        two_wires: true,
        ..PLAIN
    },
    Kind {
        name: "bond_balance_xor",
        asked: Some("bond mode balance-xor"),
        commands: &["link add k0 type bond mode balance-xor miimon 50"],
        two_wires: true,
        ..PLAIN
    },
    Kind {
        name: "bond_802_3ad",
        asked: Some("bond mode 802.3ad"),
        commands: &["link add k0 type bond mode 802.3ad miimon 50 lacp_rate fast"],
        two_wires: true,
        ..PLAIN
    },
    Kind {
        name: "vlan",
        asked: Some("vlan id 5"),
        commands: &["link add link veth0 name k0 type vlan id 5"],
        ..PLAIN
    },
    Kind {
        name: "vlan_parent",
        asked: Some("vlan id 5"),
        commands: &["link add link veth0 name k0 type vlan id 5"],
        device: "veth0",
        ..PLAIN
    },
    Kind {
        name: "qinq",
        asked: Some("vlan proto 802.1ad id 7"),
        commands: &[
            "link add link veth0 name outer0 type vlan proto 802.1ad id 7",
            "link set outer0 up",
            "link add link outer0 name k0 type vlan id 5",
        ],
        ..PLAIN
    },
    Kind {
        name: "qinq_parent",
        asked: Some("vlan proto 802.1ad id 7"),
        commands: &[
            "link add link veth0 name outer0 type vlan proto 802.1ad id 7",
            "link set outer0 up",
            "link add link outer0 name k0 type vlan id 5",
        ],
        device: "veth0",
        ..PLAIN
    },
    Kind {
        name: "macvlan",
        asked: Some("macvlan mode bridge"),
        commands: &["link add link veth0 name k0 type macvlan mode bridge"],
        ..PLAIN
    },
    Kind {
        name: "ipvlan_l2",
        asked: Some("ipvlan mode l2"),
        commands: &["link add link veth0 name k0 type ipvlan mode l2"],
        ..PLAIN
    },
    Kind {
        name: "bridge",
        asked: Some("bridge"),
        commands: &["link add k0 type bridge", "link set veth0 master k0"],
        ..PLAIN
    },
    Kind {
        name: "vxlan",
        asked: Some("vxlan id 5 dstport 4789 dev veth0 remote 192.0.2.1"),
        commands: &["link add k0 type vxlan id 5 dstport 4789 local {own} remote {peer} dev veth0"],
        ..PLAIN
    },
    Kind {
        name: "vxlan_parent",
        asked: Some("vxlan id 5 dstport 4789 dev veth0 remote 192.0.2.1"),
        commands: &["link add k0 type vxlan id 5 dstport 4789 local {own} remote {peer} dev veth0"],
        device: "veth0",
        ..PLAIN
    },
    Kind {
        name: "geneve",
        asked: Some("geneve id 5 remote 192.0.2.1"),
        commands: &["link add k0 type geneve id 5 remote {peer}"],
        ..PLAIN
    },
    Kind {
        name: "gre",
        asked: Some("gre remote 192.0.2.1"),
        commands: &["link add k0 type gre local {own} remote {peer}"],
        ..PLAIN
    },
    Kind {
        name: "gretap",
        asked: Some("gretap remote 192.0.2.1"),
        commands: &["link add k0 type gretap local {own} remote {peer}"],
        ..PLAIN
    },
    Kind {
        name: "ipip",
        asked: Some("ipip remote 192.0.2.1"),
        commands: &["link add k0 type ipip local {own} remote {peer}"],
        ..PLAIN
    },
    Kind {
        name: "tap",
        tool: Some("python3"),
        commands: &["tuntap add dev k0 mode tap"],
        ..PLAIN
    },
    Kind {
        name: "tun",
        tool: Some("python3"),
        commands: &["tuntap add dev k0 mode tun"],
        ..PLAIN
    },
    Kind {
        name: "wireguard",
        asked: Some("wireguard"),
        tool: Some("wg"),
        commands: &["link add k0 type wireguard"],
        ..PLAIN
    },
    adapter("adapter_virtio_net", "virtio_net"),
    tagged_adapter("adapter_virtio_net_vlan_parent", "virtio_net"),
    adapter("adapter_e1000e", "e1000e"),
    tagged_adapter("adapter_e1000e_vlan_parent", "e1000e"),
    adapter("adapter_vmxnet3", "vmxnet3"),
    tagged_adapter("adapter_vmxnet3_vlan_parent", "vmxnet3"),
];

/// Two adapters with a driver.
const fn adapter(name: &'static str, driver: &'static str) -> Kind {
    Kind {
        name,
        adapter: Some(driver),
        commands: &RENAMED,
        ..PLAIN
    }
}

/// Two adapters with a driver, with a VLAN above, whose tags they may take out of packets.
const fn tagged_adapter(name: &'static str, driver: &'static str) -> Kind {
    Kind {
        name,
        adapter: Some(driver),
        commands: &TAGGED,
        device: "veth0",
        ..PLAIN
    }
}

impl Kind {
    /// Returns the needs of its tests.
    pub(crate) fn needs(&self) -> Vec<Need> {
        let mut needs = vec![Need::Root, Need::Tool("ip"), Need::Tool("tcpdump")];
        needs.extend(self.asked.map(Need::Device));
        needs.extend(self.adapter.map(Need::Adapters));
        needs.extend(self.tool.map(Need::Tool));
        needs
    }

    /// Returns whether its packets have tags that no program at XDP sees. veth carries them beside the packets, and
    /// gives them to programs from Linux 6.8 on. vmxnet3 takes them out, and runs programs itself from Linux 6.6 on.
    pub(crate) fn hides_tags(&self) -> bool {
        match self.name {
            "vlan_parent" | "qinq_parent" => Need::Kernel(6, 8).unmet().is_some(),
            "adapter_vmxnet3_vlan_parent" => Need::Kernel(6, 6).unmet().is_none(),
            _ => false,
        }
    }

    /// Returns the address of the device's end on a side, from 1.
    pub(crate) fn address(&self, side: u8) -> Ipv4Addr {
        match self.peer {
            Peer::Itself => Ipv4Addr::LOCALHOST,
            Peer::Across | Peer::Nobody => Ipv4Addr::new(10, 98, 0, side),
        }
    }
}

/// The hosts of one test, with whatever runs to join them.
pub(crate) struct Hosts {
    pub(crate) left: Side,
    pub(crate) right: Side,
    /// The left side's adapter, where it has one.
    pub(crate) adapter: Option<Adapter>,
    _carriers: Vec<Running>,
}

impl Hosts {
    pub(crate) fn new(kind: &Kind) -> Self {
        let (left, right, adapter) = wire(kind);
        if kind.two_wires {
            second_wire(&left, &right);
        }
        let mut carriers = Vec::new();
        for (number, side, other) in [(1, &left, &right), (2, &right, &left)] {
            ip(side, &commands(kind, side, other, number));
            match kind.name {
                "tun" | "tap" => carriers.push(carry(side, other, kind.name)),
                _ => {}
            }
        }
        if kind.name == "wireguard" {
            join_by_keys(&left, &right);
        }
        Self {
            left,
            right,
            adapter,
            _carriers: carriers,
        }
    }
}

/// Returns the commands that make the device of a side, and give it the address with this number.
fn commands(kind: &Kind, side: &Side, other: &Side, number: u8) -> String {
    let join = JOIN_WIRES.iter().filter(|_| kind.two_wires);
    let made = kind.commands.iter().chain(join).copied();
    let mut commands = made.collect::<Vec<_>>().join("\n");
    if kind.peer != Peer::Itself {
        commands.push_str(&format!(
            "\naddress add 10.98.0.{number}/24 dev {MADE}\nlink set {MADE} up"
        ));
    }
    if kind.peer == Peer::Nobody {
        let mac = "02:00:00:00:00:09";
        let peer = 3 - number;
        commands.push_str(&format!(
            "\nneighbour add 10.98.0.{peer} lladdr {mac} dev {MADE}"
        ));
    }
    commands
        .replace("{own}", &side.ipv4.to_string())
        .replace("{peer}", &other.ipv4.to_string())
}

/// Both ends of a wire, called `veth0`, so that the commands are the same, and the left one's adapter.
fn wire(kind: &Kind) -> (Side, Side, Option<Adapter>) {
    if let Some(driver) = kind.adapter {
        let joined = adapters::joined(driver).unwrap_or_else(|error| panic!("{error}"));
        return (joined.pair.left, joined.pair.right, Some(joined.left));
    }
    let pair = VethPair::with(&VethOptions {
        queues: None,
        ..VethOptions::default()
    });
    let VethPair { left, mut right } = pair;
    rename(&right, "veth1", "veth0");
    right.device = "veth0".into();
    (left, right, None)
}

/// Runs commands of `ip` on a side, a line each.
pub(crate) fn ip(side: &Side, commands: &str) {
    let script = format!("ip -batch - <<'END'\n{commands}\nEND");
    side.namespace.output("sh", &["-c", &script]);
}

/// Gives a device another name, for which it has to be down.
pub(crate) fn rename(side: &Side, from: &str, to: &str) {
    ip(
        side,
        &format!("link set {from} down\nlink set {from} name {to}\nlink set {to} up"),
    );
}

fn second_wire(left: &Side, right: &Side) {
    let made = left.namespace.netlink().create_veth(&Veth {
        name: SECOND.as_bytes(),
        options: LinkOptions::default(),
        peer_name: SECOND.as_bytes(),
        peer_options: LinkOptions::default(),
        peer_namespace: Some((*right.namespace).as_fd()),
    });
    made.expect("a second wire");
}

/// Carries packets from a tun or tap device to the other side in datagrams.
fn carry(side: &Side, other: &Side, mode: &str) -> Running {
    const PROGRAM: &str = "
import fcntl, os, select, socket, struct, sys
name, mode, own, peer = sys.argv[1:]
device = os.open('/dev/net/tun', os.O_RDWR)
flags = (1 if mode == 'tun' else 2) | 0x1000
fcntl.ioctl(device, 0x400454ca, struct.pack('16sH22x', name.encode(), flags))
wire = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
wire.bind((own, 5000))
while True:
    for ready in select.select([device, wire], [], [])[0]:
        if ready is wire:
            os.write(device, wire.recv(65536))
        else:
            wire.sendto(os.read(device, 65536), (peer, 5000))
";
    let mut command: Command = side.namespace.command("python3");
    let addresses = [side.ipv4.to_string(), other.ipv4.to_string()];
    command.args(["-c", PROGRAM, MADE, mode]).args(addresses);
    Running::start_piped(&mut command).expect("python3 starts")
}

fn join_by_keys(left: &Side, right: &Side) {
    let key = |side: &Side, script: &str| {
        let output = side.namespace.output("sh", &["-c", script]);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    let sides = [(left, right, 2), (right, left, 1)];
    let keys = sides.map(|(side, ..)| {
        let script = format!(
            "umask 077; f=$(mktemp); wg genkey >$f; wg set {MADE} listen-port 5001 private-key $f; \
             wg pubkey <$f; rm $f"
        );
        key(side, &script)
    });
    for ((side, other, number), key) in sides.into_iter().zip(keys.iter().rev()) {
        let endpoint = format!("{}:5001", other.ipv4);
        let allowed = format!("10.98.0.{number}/32");
        let words = [
            "set",
            MADE,
            "peer",
            key,
            "allowed-ips",
            &allowed,
            "endpoint",
            &endpoint,
        ];
        side.namespace.output("wg", &words);
    }
}
