//! Devices as a library user sees them, in namespaces made for the purpose.

use std::net::IpAddr;
use std::process::ExitCode;

use ringtap_capture::devices::{self, DeviceError, DeviceInfo, Effect, Name, Obstacle};
use ringtap_capture::{CaptureOptions, LinkType, Mode, open};
use ringtap_testkit::netns::{LinkOptions, Namespace, VethOptions, VethPair};
use ringtap_testkit::{Need, suite, test};

fn main() -> ExitCode {
    let root = &[Need::Root];
    // Older veth devices do not tell ethtool how many queues they have.
    let queues = &[Need::Root, Need::Kernel(5, 15)];
    suite(vec![
        test(
            "every_interface_and_any_are_listed",
            queues,
            everything_is_listed,
        ),
        test("devices_are_found_by_every_name", root, found_by_every_name),
        test("names_win_over_numbers", root, names_win_over_numbers),
        test("relations_are_named", root, relations_are_named),
        test(
            "a_capture_shows_as_promiscuity",
            root,
            captures_show_as_promiscuity,
        ),
        test("the_default_device_carries_frames", root, default_device),
        test("offloads_of_a_veth_are_told", root, offloads_are_told),
        test("engines_tell_what_is_in_the_way", root, engines_tell),
        test(
            "an_unknown_engine_is_told_with_the_known_ones",
            &[Need::Interfaces],
            unknown_engine,
        ),
    ])
}

fn unknown_engine() {
    let Err(error) = open("pfring:lo", &CaptureOptions::default(), None) else {
        panic!("opened");
    };
    let text = "pfring:lo: unknown engine \"pfring\"; engines are packet, tcx, xdp, xsk, drop";
    assert_eq!(error.to_string(), text);
}

fn list(namespace: &Namespace) -> Vec<DeviceInfo> {
    namespace.run(devices::list).expect("devices can be listed")
}

fn by_name(namespace: &Namespace, name: &str) -> DeviceInfo {
    namespace.run(|| devices::by_name(name)).expect("listed")
}

fn everything_is_listed() {
    let options = VethOptions {
        ipv6: true,
        queues: Some(3),
        ..VethOptions::default()
    };
    let pair = VethPair::with(&options);
    let devices = list(&pair.left.namespace);
    let names: Vec<_> = devices
        .iter()
        .map(|device| device.name.to_string())
        .collect();
    assert_eq!(names, ["lo", "veth0", "any"]);
    let veth = &devices[1];
    assert_eq!(veth.link_type, LinkType::ETHERNET);
    assert_eq!((veth.rx_queues, veth.tx_queues), (Some(3), Some(3)));
    assert_eq!(veth.channels.map(|channels| channels.rx), Some(3));
    assert_eq!(
        veth.driver.as_ref().map(|driver| driver.name.to_string()),
        Some("veth".into())
    );
    let addresses: Vec<_> = veth
        .addresses
        .iter()
        .map(|address| address.address)
        .collect();
    assert_eq!(
        addresses,
        [IpAddr::from(pair.left.ipv4), IpAddr::from(pair.left.ipv6)]
    );
    assert!(veth.counters.is_some() && !veth.features.is_empty());
    assert!(veth.unread.is_empty(), "{:?}", veth.unread);
    let any = &devices[2];
    assert!(any.is_any() && any.counters.is_none() && any.link_type == LinkType::LINUX_SLL2);
}

fn found_by_every_name() {
    let pair = VethPair::new();
    let namespace = &pair.left.namespace;
    let long = "an-alternative-name-of-more-than-fifteen-bytes";
    namespace
        .netlink()
        .add_altname("veth0", long)
        .expect("a name");
    let index = by_name(namespace, "veth0").index;
    for name in [long, &index.to_string()] {
        assert_eq!(by_name(namespace, name).name, Name::new(b"veth0"), "{name}");
    }
    for name in ["", "veth", "0", "4294967296", "veth0\0"] {
        let error = namespace
            .run(|| devices::by_name(name))
            .expect_err("nobody has this name");
        assert!(
            matches!(&error, DeviceError::NoSuchDevice { .. }),
            "{name}: {error}"
        );
    }
}

fn names_win_over_numbers() {
    let namespace = Namespace::new();
    let mut netlink = namespace.netlink();
    netlink
        .create("bridge", "1", &LinkOptions::default())
        .expect("a name of a digit");
    assert_eq!(by_name(&namespace, "1").kind, Some(Name::new(b"bridge")));
    assert_eq!(by_name(&namespace, "lo").index, 1);
}

fn relations_are_named() {
    let pair = VethPair::new();
    let namespace = &pair.left.namespace;
    let mut netlink = namespace.netlink();
    netlink
        .create_macvlan("veth0", "mac0", &LinkOptions::default())
        .expect("a macvlan");
    let parent = by_name(namespace, "mac0").parent.expect("a parent");
    assert_eq!(
        (parent.name, parent.namespace),
        (Some(Name::new(b"veth0")), None)
    );
    let peer = by_name(namespace, "veth0").parent.expect("a peer");
    // Its number may be that of an interface here, whose name must not be taken for it.
    assert_eq!(peer.name, None);
    assert!(peer.namespace.is_some());
}

fn captures_show_as_promiscuity() {
    let pair = VethPair::new();
    let namespace = &pair.left.namespace;
    assert_eq!(by_name(namespace, "veth0").promiscuity, 0);
    let options = CaptureOptions::default();
    let source = namespace
        .run(|| open("veth0", &options, None))
        .expect("opened");
    let device = by_name(namespace, "veth0");
    assert_eq!(device.promiscuity, 1);
    assert!(
        !device.flags.is_promiscuous(),
        "the flag is the administrator's"
    );
    drop(source);
    assert_eq!(by_name(namespace, "veth0").promiscuity, 0);
}

fn default_device() {
    let pair = VethPair::new();
    let namespace = &pair.left.namespace;
    let chosen = || namespace.run(devices::default_device).expect("listed");
    assert_eq!(chosen(), Some(Name::new(b"veth0")));
    let mut netlink = namespace.netlink();
    netlink.set_up("veth0", false).expect("down");
    assert_eq!(chosen(), Some(Name::new(b"lo")));
    netlink.set_up("lo", false).expect("down");
    assert_eq!(chosen(), None);
}

fn offloads_are_told() {
    let pair = VethPair::new();
    let offloads = by_name(&pair.left.namespace, "veth0").active_offloads();
    let effects: Vec<_> = offloads.iter().map(|offload| offload.effect).collect();
    for effect in [Effect::SentUncut, Effect::SentUnchecked] {
        assert!(effects.contains(&effect), "{effects:?}");
    }
    let all: Vec<_> = offloads
        .iter()
        .flat_map(|offload| &offload.features)
        .collect();
    let mut once = all.clone();
    once.sort();
    once.dedup();
    assert_eq!(all.len(), once.len(), "each feature has one effect");
}

fn engines_tell() {
    let pair = VethPair::new();
    let engines = by_name(&pair.left.namespace, "veth0").engines();
    assert_eq!((engines[0].engine, &engines[0].obstacle), ("packet", &None));
    // An engine is listed as working if it opens.
    for support in &engines {
        let device = format!("{}:veth0", support.engine);
        let steals = support.engine == "xsk";
        let options = CaptureOptions::default().mode(if steals { Mode::Steal } else { Mode::Copy });
        let opened = pair.left.run(|| open(&device, &options, None));
        let error = opened.err().map(|error| error.to_string());
        let told = support.obstacle.as_ref().map(ToString::to_string);
        assert_eq!(
            error.is_some(),
            told.is_some(),
            "{device}: {error:?}, {told:?}"
        );
        if let (Some(error), Some(told)) = (error, told) {
            assert!(error.ends_with(&told), "{error:?}, {told:?}");
        }
    }
    let all = by_name(&pair.left.namespace, devices::ANY).engines();
    let of_one: Vec<_> = all
        .iter()
        .filter(|support| support.obstacle == Some(Obstacle::OneInterface))
        .map(|support| support.engine)
        .collect();
    assert_eq!(of_one, ["xdp", "xsk"], "these refuse to capture on any");
    assert!(
        !engines
            .iter()
            .any(|e| e.obstacle == Some(Obstacle::OneInterface))
    );
}
