//! The list of interfaces, compared with the created ones and with the output of ip and ethtool.

use std::collections::HashMap;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::process::ExitCode;

use ringtap_sys::ethtool::Ethtool;
use ringtap_sys::netlink::{Error, Link, LinkOptions, Name, OperationalState, Veth, Vlan};
use ringtap_sys::receive_stamps::ReceiveStamps;
use ringtap_testkit::netns::{Namespace, VethOptions, VethPair};
use ringtap_testkit::{Need, suite, test};

const IFF_UP: u32 = 1;
const IFF_PROMISC: u32 = 0x100;
const ARPHRD_ETHER: u16 = 1;
const ARPHRD_LOOPBACK: u16 = 772;

fn main() -> ExitCode {
    let root = &[Need::Root];
    let ethtool = &[Need::Root, Need::Tool("ethtool")];
    suite(vec![
        test("links_are_as_they_were_made", root, links_are_as_made),
        test("links_show_changes", root, links_show_changes),
        test(
            "parents_in_other_namespaces_are_told",
            root,
            parents_are_told,
        ),
        test(
            "vlan_sub_interfaces_are_listed",
            &[Need::Vlan],
            vlans_are_listed,
        ),
        test("counters_move_with_traffic", root, counters_move),
        test("addresses_are_listed", root, addresses_are_listed),
        test("default_routes_are_listed", root, default_routes_are_listed),
        test("names_of_any_bytes_are_listed", root, names_of_any_bytes),
        test("two_hundred_links_are_listed", root, many_links),
        test(
            "driver_and_queues_equal_ethtool",
            // Older veth devices do not tell how many queues they have.
            &[Need::Root, Need::Tool("ethtool"), Need::Kernel(5, 15)],
            driver_and_queues,
        ),
        test("features_equal_ethtool", ethtool, features_equal_ethtool),
        test(
            "statistics_equal_ethtool",
            ethtool,
            statistics_equal_ethtool,
        ),
        test(
            "an_unknown_interface_is_an_error",
            &[Need::Interfaces],
            unknown_interface,
        ),
        test(
            "loopback_stamps_no_packets",
            &[Need::Interfaces],
            loopback_has_no_clock,
        ),
    ])
}

fn loopback_has_no_clock() {
    let error = ReceiveStamps::start("lo", 1).expect_err("no adapter");
    assert_eq!(error.call, "ioctl(SIOCSHWTSTAMP)");
    let refused = [libc::EOPNOTSUPP, libc::EINVAL, libc::EPERM];
    assert!(
        error.errno().is_some_and(|code| refused.contains(&code)),
        "{error}"
    );
}

fn find(namespace: &Namespace, name: &str) -> Link {
    let links = namespace.netlink().links().expect("links can be listed");
    let found = links
        .into_iter()
        .find(|link| link.name.as_bytes() == name.as_bytes());
    found.unwrap_or_else(|| panic!("{name} is not listed"))
}

fn links_are_as_made() {
    let options = VethOptions {
        queues: Some(3),
        mtu: Some(4000),
        ..VethOptions::default()
    };
    let pair = VethPair::with(&options);
    let links = pair
        .left
        .namespace
        .netlink()
        .links()
        .expect("links can be listed");
    assert_eq!(links.len(), 2);
    let (lo, veth) = (&links[0], &links[1]);
    assert_eq!(
        (lo.name.as_str(), lo.hardware_type),
        (Some("lo"), ARPHRD_LOOPBACK)
    );
    assert_eq!((lo.index, lo.mtu, lo.kind.as_ref()), (1, 65536, None));
    assert_eq!(
        (veth.name.as_str(), veth.hardware_type),
        (Some("veth0"), ARPHRD_ETHER)
    );
    assert_eq!(veth.kind, Some(Name::new(b"veth")));
    assert_eq!(veth.address, pair.left.mac);
    assert_eq!(veth.broadcast, [0xff; 6]);
    assert_eq!(
        (veth.mtu, veth.rx_queues, veth.tx_queues),
        (4000, Some(3), Some(3))
    );
    assert_eq!(
        (veth.state, veth.carrier),
        (OperationalState::Up, Some(true))
    );
    assert_ne!(veth.flags & IFF_UP, 0);
    assert!(veth.altnames.is_empty() && veth.xdp.is_empty() && veth.vlan.is_none());
}

fn links_show_changes() {
    let pair = VethPair::new();
    let mut netlink = pair.left.namespace.netlink();
    let long = "x".repeat(127);
    netlink
        .add_altname("veth0", &long)
        .expect("the longest alternative name");
    netlink
        .add_altname("veth0", "other")
        .expect("an alternative name");
    netlink.set_promiscuous("veth0", true).expect("promiscuous");
    netlink
        .set_mac("veth0", [2, 0, 0, 0, 0, 9])
        .expect("a unicast address");
    let veth = find(&pair.left.namespace, "veth0");
    assert_eq!(
        veth.altnames,
        [Name::new(long.as_bytes()), Name::new(b"other")]
    );
    assert_ne!(veth.flags & IFF_PROMISC, 0);
    assert_eq!(
        (veth.promiscuity, veth.address),
        (1, vec![2, 0, 0, 0, 0, 9])
    );
    netlink.set_promiscuous("veth0", false).expect("as before");
    netlink.set_up("veth0", false).expect("down");
    let veth = find(&pair.left.namespace, "veth0");
    assert_eq!(
        (veth.flags & (IFF_PROMISC | IFF_UP), veth.promiscuity),
        (0, 0)
    );
    assert_eq!(veth.state, OperationalState::Down);
    let other = find(&pair.right.namespace, "veth1");
    assert_eq!(
        other.carrier,
        Some(false),
        "no carrier without the other end"
    );
}

fn parents_are_told() {
    let pair = VethPair::new();
    let (left, right) = (
        find(&pair.left.namespace, "veth0"),
        find(&pair.right.namespace, "veth1"),
    );
    assert_eq!(left.parent, Some(right.index));
    assert!(left.parent_namespace.is_some(), "the peer lives elsewhere");
    let mut netlink = pair.left.namespace.netlink();
    netlink
        .create_macvlan("veth0", "sub0", &LinkOptions::default())
        .expect("a macvlan");
    netlink
        .create("bridge", "br0", &LinkOptions::default())
        .expect("a bridge");
    let sub = find(&pair.left.namespace, "sub0");
    assert_eq!((sub.parent, sub.parent_namespace), (Some(left.index), None));
    assert_eq!(sub.kind, Some(Name::new(b"macvlan")));
    assert_eq!(
        find(&pair.left.namespace, "br0").kind,
        Some(Name::new(b"bridge"))
    );
}

fn vlans_are_listed() {
    let pair = VethPair::new();
    let mut netlink = pair.left.namespace.netlink();
    let parent = find(&pair.left.namespace, "veth0").index;
    for (name, id, service, protocol) in [("v5", 5, false, 0x8100), ("s9", 4094, true, 0x88a8)] {
        netlink
            .create_vlan("veth0", name, id, service)
            .expect("a VLAN sub-interface");
        let link = find(&pair.left.namespace, name);
        assert_eq!(link.vlan, Some(Vlan { id, protocol }));
        assert_eq!(link.parent, Some(parent));
        assert_eq!(link.kind, Some(Name::new(b"vlan")));
    }
}

fn counters_move() {
    let pair = VethPair::new();
    let before = find(&pair.left.namespace, "veth0").counters;
    let listener = pair
        .right
        .run(|| TcpListener::bind((pair.right.ipv4, 80)))
        .expect("a port");
    let mut client = pair
        .left
        .run(|| TcpStream::connect((pair.right.ipv4, 80)))
        .expect("a connection");
    let (mut server, _) = listener.accept().expect("a connection");
    client.write_all(&[7; 100_000]).expect("sent");
    server.read_exact(&mut [0; 100_000]).expect("received");
    let left = find(&pair.left.namespace, "veth0").counters;
    assert!(left.tx_bytes - before.tx_bytes > 100_000, "{left:?}");
    assert!(left.tx_packets > before.tx_packets && left.rx_packets > before.rx_packets);
    assert_eq!(
        (left.rx_errors, left.collisions, left.rx_crc_errors),
        (0, 0, 0)
    );
    let counters: HashMap<_, _> = left.iter().collect();
    assert_eq!(counters["tx_bytes"], left.tx_bytes);
    assert!(counters.len() >= 24);
}

fn addresses_are_listed() {
    let pair = VethPair::with(&VethOptions {
        ipv6: true,
        ..VethOptions::default()
    });
    let mut netlink = pair.left.namespace.netlink();
    let extra: IpAddr = "192.0.2.9".parse().expect("an address");
    netlink
        .add_address("veth0", extra, 31)
        .expect("a second address");
    let index = find(&pair.left.namespace, "veth0").index;
    let addresses = netlink.addresses().expect("addresses can be listed");
    let of_veth: Vec<_> = addresses
        .iter()
        .filter(|address| address.index == index)
        .collect();
    let text: Vec<_> = of_veth
        .iter()
        .map(|a| format!("{}/{}", a.address, a.prefix))
        .collect();
    assert_eq!(text, ["10.99.0.1/24", "192.0.2.9/31", "fd99::1/64"]);
    assert_eq!(
        of_veth[0].broadcast,
        Some("10.99.0.255".parse().expect("an address"))
    );
    assert_eq!(of_veth[0].netmask().to_string(), "255.255.255.0");
    assert_eq!((of_veth[1].broadcast, of_veth[1].peer), (None, None));
    assert_eq!((of_veth[2].broadcast, of_veth[2].peer), (None, None));
}

fn default_routes_are_listed() {
    let pair = VethPair::with(&VethOptions {
        ipv6: true,
        ..VethOptions::default()
    });
    let mut netlink = pair.left.namespace.netlink();
    assert_eq!(netlink.default_routes().expect("routes can be listed"), []);
    for gateway in [IpAddr::from(pair.right.ipv4), IpAddr::from(pair.right.ipv6)] {
        netlink
            .add_default_route("veth0", gateway)
            .expect("a gateway on the link");
    }
    let routes = netlink.default_routes().expect("routes can be listed");
    let index = find(&pair.left.namespace, "veth0").index;
    assert!(
        routes
            .iter()
            .all(|route| route.index == index && route.table == 254)
    );
    let gateways: Vec<_> = routes.iter().filter_map(|route| route.gateway).collect();
    assert_eq!(
        gateways,
        [IpAddr::from(pair.right.ipv4), IpAddr::from(pair.right.ipv6)]
    );
    let is_ipv6: Vec<_> = routes.iter().map(|route| route.is_ipv6).collect();
    assert_eq!(is_ipv6, [false, true]);
}

fn names_of_any_bytes() {
    let namespace = Namespace::new();
    let mut netlink = namespace.netlink();
    let hostile = b"\x1b[31m\xff\xfe\x07";
    netlink
        .create("bridge", hostile, &LinkOptions::default())
        .expect("the kernel allows it");
    let links = netlink.links().expect("one odd name spoils nothing");
    assert_eq!(links.len(), 2);
    assert_eq!(links[1].name.as_bytes(), hostile);
    assert_eq!(links[1].name.to_string(), "\\x1b[31m\\xff\\xfe\\x07");
    assert_eq!(netlink.index(hostile).expect("found by it"), links[1].index);
    let mut ethtool = open_ethtool(&namespace);
    let driver = ethtool
        .driver(&links[1].name)
        .expect("an interface")
        .expect("a driver");
    assert_eq!(driver.name, Name::new(b"bridge"));
}

fn many_links() {
    let namespace = Namespace::new();
    let mut netlink = namespace.netlink();
    for number in 0..100 {
        let (name, peer_name) = (format!("a{number}"), format!("b{number}"));
        netlink
            .create_veth(&Veth::new(&name, &peer_name))
            .expect("a pair");
    }
    // Far more than one datagram of the kernel holds.
    let links = netlink.links().expect("links can be listed");
    assert_eq!(links.len(), 201);
    assert!(links.is_sorted_by_key(|link| link.index));
}

/// Returns ethtool's output for a flag, as pairs of name and value.
fn ethtool_lines(namespace: &Namespace, flag: &str, device: &str) -> Vec<(String, String)> {
    let output = namespace.output("ethtool", &[flag, device]).stdout;
    let text = String::from_utf8(output).expect("ASCII");
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs
        .map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()))
        .collect()
}

fn open_ethtool(namespace: &Namespace) -> Ethtool {
    namespace.run(Ethtool::open).expect("a socket")
}

fn driver_and_queues() {
    let pair = VethPair::with(&VethOptions {
        queues: Some(2),
        ..VethOptions::default()
    });
    let namespace = &pair.left.namespace;
    let mut ethtool = open_ethtool(namespace);
    let veth = Name::new(b"veth0");
    let driver = ethtool
        .driver(&veth)
        .expect("an interface")
        .expect("a driver");
    let lines: HashMap<_, _> = ethtool_lines(namespace, "-i", "veth0")
        .into_iter()
        .collect();
    assert_eq!(driver.name.to_string(), lines["driver"]);
    assert_eq!(driver.version.to_string(), lines["version"]);
    assert_eq!(driver.bus.to_string(), lines["bus-info"]);
    let channels = ethtool
        .channels(&veth)
        .expect("an interface")
        .expect("queues");
    let lines = ethtool_lines(namespace, "-l", "veth0");
    let values = |name: &str| -> Vec<u32> {
        let found = lines.iter().filter(|(key, _)| key == name);
        found.map(|(_, value)| value.parse().unwrap_or(0)).collect()
    };
    assert_eq!(values("RX"), [channels.max_rx, channels.rx]);
    assert_eq!(values("TX"), [channels.max_tx, channels.tx]);
    assert_eq!((channels.rx, channels.max_rx), (2, 2));
    let mode = ethtool
        .link_mode(&veth)
        .expect("an interface")
        .expect("a speed");
    assert_eq!((mode.speed, mode.full_duplex), (Some(10_000), Some(true)));
    assert!(ethtool.timestamping(&veth).expect("an interface").is_some());
    assert_eq!(ethtool.rings(&veth).expect("an interface"), None);
}

fn features_equal_ethtool() {
    let pair = VethPair::new();
    let namespace = &pair.left.namespace;
    namespace.output("ethtool", &["-K", "veth0", "gro", "on", "tso", "off"]);
    let features = open_ethtool(namespace)
        .features(&Name::new(b"veth0"))
        .expect("features");
    let mut compared = 0;
    // For groups ethtool has its own names; the others are the kernel's.
    for (name, value) in ethtool_lines(namespace, "-k", "veth0") {
        if let Some(feature) = features.iter().find(|f| f.name.to_string() == name) {
            assert_eq!(feature.active, value.starts_with("on"), "{name}");
            assert_eq!(!feature.changeable, value.contains("[fixed]"), "{name}");
            compared += 1;
        }
    }
    assert!(compared > 30, "{compared} features compared");
    let is_on = |name: &str| {
        features
            .iter()
            .any(|f| f.name.to_string() == name && f.active)
    };
    assert!(is_on("rx-gro") && !is_on("tx-tcp-segmentation"));
}

fn statistics_equal_ethtool() {
    let pair = VethPair::with(&VethOptions {
        queues: Some(2),
        ..VethOptions::default()
    });
    let namespace = &pair.left.namespace;
    let mut ethtool = open_ethtool(namespace);
    let ours = ethtool
        .statistics(&Name::new(b"veth0"))
        .expect("statistics");
    let theirs = ethtool_lines(namespace, "-S", "veth0");
    let ours: Vec<_> = ours
        .iter()
        .map(|s| (s.name.to_string(), s.value.to_string()))
        .collect();
    // The first line is a heading without a value.
    assert_eq!(ours, theirs[1..]);
    assert!(ours.len() > 5, "{ours:?}");
    assert_eq!(
        ethtool.statistics(&Name::new(b"lo")).expect("an interface"),
        []
    );
}

fn unknown_interface() {
    let mut ethtool = Ethtool::open().expect("a socket");
    let name = Name::new(b"no-such-device");
    let error = ethtool.driver(&name).expect_err("nobody has this name");
    assert_eq!(error.errno(), Some(libc::ENODEV));
    assert!(error.to_string().contains("no-such-device"), "{error}");
    let long = Name::new(&[b'x'; 16]);
    assert_eq!(
        ethtool.features(&long).expect_err("too long").errno(),
        Some(libc::ENODEV)
    );
    let mut netlink = ringtap_sys::netlink::Netlink::open().expect("a socket");
    let error = netlink
        .index("no-such-device")
        .expect_err("nobody has this name");
    assert!(matches!(error, Error::NoLink { .. }), "{error}");
}
