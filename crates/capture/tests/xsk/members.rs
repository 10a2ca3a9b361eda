//! One capture on all members of a bond. A bridge replaces a bond on kernels without one: its ports' packets
//! are taken before it sees them, as those of a bond's members are.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use ringtap_capture::{
    CaptureOptions, Direction, Error, Host, Mode, Next, OptionError, Source, open, open_on,
};
use ringtap_sys::netlink::{LinkOptions, Netlink, Veth};
use ringtap_sys::packet::inject::Injector;
use ringtap_testkit::netns::Namespace;

use crate::faults::{self, capturing_child, replace_program};
use crate::{options, patience, programs};

/// The device that joins the members.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Master {
    /// A bond with its mode.
    Bond(u8),
    Team,
    Bridge,
}

/// `balance-rr` and `active-backup`.
pub(crate) const ROUND_ROBIN: u8 = 0;
pub(crate) const ACTIVE_BACKUP: u8 = 1;

const MASTER: &str = "group0";
const NAMES: [&str; 2] = ["m0", "m1"];
const SENDERS: [&str; 2] = ["a0", "a1"];
/// The EtherTypes of the frames: for experiments, and that of LACP.
const EXPERIMENT: u16 = 0x88b5;
const SLOW_PROTOCOLS: u16 = 0x8809;

/// Two wires to one bond.
pub(crate) struct Group {
    left: Namespace,
    right: Namespace,
    master: Master,
}

impl Group {
    fn new(master: Master) -> Self {
        let (left, right) = (Namespace::new(), Namespace::new());
        let mut netlink = right.netlink();
        match master {
            Master::Bond(mode) => netlink.create_bond(MASTER, mode),
            Master::Team => netlink.create("team", MASTER, &LinkOptions::default()),
            Master::Bridge => netlink.create("bridge", MASTER, &LinkOptions::default()),
        }
        .expect("a master");
        for (sender, name) in SENDERS.into_iter().zip(NAMES) {
            let mut wire = Veth::new(sender, name);
            wire.peer_namespace = Some(right.as_fd());
            left.netlink().create_veth(&wire).expect("a wire");
            left.netlink().set_up(sender, true).expect("it exists");
            join(&mut netlink, name);
        }
        netlink.set_up(MASTER, true).expect("it exists");
        for (namespace, names) in [(&left, SENDERS), (&right, NAMES)] {
            for name in names {
                let up = namespace.netlink().wait_until_up(name, patience());
                assert!(up.expect("it exists"), "{name}");
            }
        }
        Self {
            left,
            right,
            master,
        }
    }

    fn device() -> String {
        format!("xsk:{MASTER}")
    }

    fn try_open(&self, options: &CaptureOptions) -> ringtap_capture::Result<Box<dyn Source>> {
        let mut host = Host::default();
        if matches!(self.master, Master::Bridge) {
            host.aggregates = &["bridge"];
        }
        self.right
            .run(|| open_on(&host, &Self::device(), options, None))
    }

    fn open(&self) -> Box<dyn Source> {
        let source = self.try_open(&options());
        source.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Sends frames with these numbers to a member.
    fn send(&self, member: usize, numbers: impl Iterator<Item = u16>) {
        let injector = self.injector(member);
        for number in numbers {
            let frame = frame(EXPERIMENT, number);
            injector.send(&frame).expect("the end is up");
        }
    }

    fn injector(&self, member: usize) -> Injector {
        let index = self.left.netlink().index(SENDERS[member]);
        let index = index.expect("it exists");
        self.left.run(|| Injector::open(index).expect("root"))
    }

    /// Returns the XDP programs of master and members.
    fn programs(&self) -> [usize; 3] {
        [MASTER, NAMES[0], NAMES[1]].map(|name| programs(&self.right, name))
    }
}

fn join(netlink: &mut Netlink, name: &str) {
    // Bonds take interfaces that are down.
    netlink.set_up(name, false).expect("it exists");
    let joined = netlink.set_master(name, Some(MASTER.as_bytes()));
    joined.expect("a member");
    netlink.set_up(name, true).expect("it exists");
}

fn frame(kind: u16, number: u16) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 1]);
    frame.extend(kind.to_be_bytes());
    frame.extend(number.to_be_bytes());
    frame.resize(60, 0);
    frame
}

/// Returns the numbers of the next frames, in order.
fn numbers(source: &mut dyn Source, count: usize) -> Vec<u16> {
    let mut numbers = Vec::new();
    let begin = Instant::now();
    while numbers.len() < count {
        assert!(begin.elapsed() < patience(), "{numbers:?} of {count}");
        if let Next::Block(block) = source.next().expect("it runs") {
            numbers.extend(block.packets().map(|packet| {
                assert_eq!(packet.data[12..14], EXPERIMENT.to_be_bytes());
                u16::from_be_bytes([packet.data[14], packet.data[15]])
            }));
        }
    }
    numbers.sort_unstable();
    numbers
}

/// Returns the next error; packets are not expected.
fn told(source: &mut dyn Source) -> Error {
    let begin = Instant::now();
    loop {
        assert!(begin.elapsed() < patience(), "nothing is told");
        match source.next() {
            Ok(Next::TimedOut) => {}
            Ok(other) => panic!("{other:?}"),
            Err(error) => return error,
        }
    }
}

pub(crate) fn all_are_captured_on(master: Master) {
    let group = Group::new(master);
    let mut source = group.open();
    assert_eq!(group.programs(), [0, 1, 1]);
    let interfaces = source.interfaces();
    assert_eq!(interfaces.len(), 1);
    assert_eq!(interfaces[0].name.as_deref(), Some(MASTER));
    let text = source.describe().to_string();
    assert!(text.contains("members: m0, m1"), "{text}");
    group.send(0, 0..150);
    group.send(1, 150..300);
    let expected: Vec<u16> = (0..300).collect();
    assert_eq!(numbers(&mut *source, 300), expected);
    assert!(matches!(source.next(), Ok(Next::TimedOut)), "each once");
    let stats = source.stats().expect("counters");
    assert_eq!((stats.received, stats.dropped.ring), (Some(300), Some(0)));
    assert_eq!(source.programs().expect("fds").len(), 2);
    drop(source);
    assert_eq!(group.programs(), [0, 0, 0]);
}

pub(crate) fn losses_are_summed(master: Master) {
    let group = Group::new(master);
    let options = options()
        // 64 frames for each of the two.
        .buffer(2 * 64 * 2048);
    let mut source = group.try_open(&options).expect("root");
    for member in [0, 1] {
        group.send(member, 0..100);
    }
    // The kernel may be at work on the last ones.
    let begin = Instant::now();
    while source.stats().expect("counters").received != Some(200) {
        assert!(begin.elapsed() < patience(), "{:?}", source.stats());
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(numbers(&mut *source, 128).len(), 128);
    let stats = source.stats().expect("counters");
    assert_eq!((stats.received, stats.dropped.ring), (Some(200), Some(72)));
    // Losses of a removed member still count.
    let mut netlink = group.right.netlink();
    netlink.set_master(NAMES[1], None).expect("free");
    assert!(matches!(told(&mut *source), Error::MemberGone { .. }));
    assert!(matches!(source.next(), Ok(Next::TimedOut)));
    let after = source.stats().expect("counters");
    assert_eq!((after.received, after.dropped.ring), (Some(200), Some(72)));
}

pub(crate) fn comings_and_goings_are_told(master: Master) {
    let group = Group::new(master);
    let mut netlink = group.right.netlink();
    let mut source = group.open();
    netlink.set_master(NAMES[1], None).expect("free");
    let error = told(&mut *source);
    assert!(error.is_transient());
    assert_eq!(error.to_string(), "group0: member m1 is gone");
    assert_eq!(group.programs(), [0, 1, 0], "it is the host's again");
    group.send(0, 0..10);
    assert_eq!(
        numbers(&mut *source, 10),
        (0..10).collect::<Vec<u16>>(),
        "the other goes on"
    );
    join(&mut netlink, NAMES[1]);
    wait_for(&mut *source, || group.programs() == [0, 1, 1]);
    assert!(netlink.wait_until_up(NAMES[1], patience()).expect("there"));
    group.send(1, 10..20);
    assert_eq!(
        numbers(&mut *source, 10),
        (10..20).collect::<Vec<u16>>(),
        "it is captured on again"
    );
    netlink.set_up(NAMES[0], false).expect("it exists");
    let error = told(&mut *source);
    assert_eq!(error.to_string(), "m0: the interface is down");
    netlink.delete(NAMES[1]).expect("it exists");
    let error = told(&mut *source);
    assert_eq!(error.to_string(), "group0: member m1 is gone");
    netlink.set_up(NAMES[0], true).expect("it exists");
    assert!(netlink.wait_until_up(NAMES[0], patience()).expect("there"));
    group.send(0, 20..30);
    assert_eq!(numbers(&mut *source, 10), (20..30).collect::<Vec<u16>>());
    netlink.delete(MASTER).expect("it exists");
    let error = loop {
        // Depending on the order, the member's leaving is reported first.
        match told(&mut *source) {
            Error::MemberGone { .. } => {}
            error => break error,
        }
    };
    assert!(matches!(error, Error::InterfaceGone { .. }), "{error}");
}

fn copying() -> CaptureOptions {
    options().mode(Mode::Copy)
}

/// Lets the source check its interfaces until a condition holds.
fn wait_for(source: &mut dyn Source, condition: impl Fn() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < patience());
        match source.next() {
            Ok(Next::TimedOut) | Err(Error::InterfaceDown { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn one_that_cannot_be_opened(master: Master) {
    let group = Group::new(master);
    let taken = format!("xsk:{}", NAMES[1]);
    let other = group.right.run(|| open(&taken, &options(), None));
    let other = other.unwrap_or_else(|error| panic!("{error}"));
    let error = group.try_open(&options()).err().expect("refused");
    assert!(
        matches!(&error, Error::Member { device, member, .. } if device == MASTER && member == "m1"),
        "{error}"
    );
    // None is kept, once programs are executed that other tests are starting: until then they have its descriptors.
    let begin = Instant::now();
    while group.programs() != [0, 0, 1] {
        assert!(begin.elapsed() < patience(), "{:?}", group.programs());
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(other);
    let mut source = group.open();
    // A new member that cannot be opened is reported once, and the others continue.
    let mut netlink = group.right.netlink();
    netlink.set_master(NAMES[1], None).expect("free");
    assert!(matches!(told(&mut *source), Error::MemberGone { .. }));
    // Its sockets are closed once all that they brought was handed out.
    assert!(matches!(source.next(), Ok(Next::TimedOut)));
    // Bonds and teams take down the members that they release.
    netlink.set_up(NAMES[1], true).expect("it exists");
    assert!(
        netlink
            .wait_until_up(NAMES[1], patience())
            .expect("it exists")
    );
    let other = group.right.run(|| open(&taken, &options(), None));
    let other = other.unwrap_or_else(|error| panic!("{error}"));
    join(&mut netlink, NAMES[1]);
    let error = loop {
        match told(&mut *source) {
            Error::InterfaceDown { .. } => {}
            error => break error,
        }
    };
    assert!(error.is_transient());
    let text = error.to_string();
    assert!(
        text.starts_with("group0: m1 has become a member and is not captured: "),
        "{text}"
    );
    group.send(0, 0..10);
    assert_eq!(numbers(&mut *source, 10).len(), 10);
    drop(other);
}

pub(crate) fn consent_is_for_the_bond(master: Master) {
    let group = Group::new(master);
    let mut netlink = group.right.netlink();
    netlink
        .add_address(MASTER, [10, 99, 0, 2].into(), 24)
        .expect("an address");
    netlink
        .add_default_route(MASTER, [10, 99, 0, 1].into())
        .expect("a route");
    let text = group.try_open(&options()).err().expect("refused");
    let text = text.to_string();
    assert!(text.contains("group0"), "{text}");
    assert!(text.contains("it carries the IPv4 default route"), "{text}");
    assert_eq!(group.programs(), [0, 0, 0]);
    let forced = options().force(true);
    let source = group.try_open(&forced).expect("with consent");
    let text = source.describe().to_string();
    assert_eq!(text.matches("stealing with consent").count(), 1, "{text}");
}

pub(crate) fn control_frames_go_on(master: Master) {
    let group = Group::new(master);
    let mut source = group.open();
    let text = source.describe().to_string();
    assert!(text.contains("LACP"), "{text}");
    let host = format!("packet:{}", NAMES[0]);
    // A bridge sends queries and reports of groups by itself.
    let received = copying().direction(Direction::In);
    let host = group.right.run(|| open(&host, &received, None));
    let mut host = host.unwrap_or_else(|error| panic!("{error}"));
    let injector = group.injector(0);
    injector.send(&frame(EXPERIMENT, 1)).expect("up");
    injector.send(&frame(SLOW_PROTOCOLS, 2)).expect("up");
    injector.send(&frame(EXPERIMENT, 3)).expect("up");
    assert_eq!(numbers(&mut *source, 2), [1, 3]);
    let begin = Instant::now();
    let seen = loop {
        assert!(begin.elapsed() < patience());
        if let Next::Block(block) = host.next().expect("it runs") {
            let packets = block.packets().map(|packet| packet.data.to_vec());
            break packets.collect::<Vec<_>>();
        }
    };
    assert_eq!(seen, [frame(SLOW_PROTOCOLS, 2)]);
}

/// The tap in the driver of a bond, whose driver runs the program for its members.
pub(crate) fn the_tap_sees_all(master: Master) {
    let group = Group::new(master);
    let device = format!("xdp:{MASTER}");
    let opened = group.right.run(|| open(&device, &copying(), None));
    let mut source = opened.unwrap_or_else(|error| panic!("{error}"));
    // A bond with an active member drops packets of the others, except through its own program.
    group.send(0, 0..50);
    group.send(1, 50..100);
    assert_eq!(
        numbers(&mut *source, 100),
        (0..100).collect::<Vec<u16>>(),
        "{}",
        source.describe()
    );
    assert!(matches!(source.next(), Ok(Next::TimedOut)), "each once");
}

pub(crate) fn killed_reader_leaves_nothing(master: Master) {
    let group = Group::new(master);
    let stand_in = matches!(master, Master::Bridge);
    let mut child = capturing_child(&group.right, &Group::device(), stand_in);
    faults::wait_for(|| group.programs() == [0, 1, 1]);
    // SIGKILL.
    child.kill().expect("it runs");
    child.wait().expect("a child");
    faults::wait_for(|| group.programs() == [0, 0, 0]);
    // The queues are free.
    let mut source = group.open();
    group.send(1, 0..10);
    assert_eq!(numbers(&mut *source, 10).len(), 10);
}

pub(crate) fn a_replaced_program_is_told(master: Master) {
    let group = Group::new(master);
    let mut source = group.open();
    let link = replace_program(&group.right, NAMES[1]);
    let error = told(&mut *source);
    assert!(error.is_transient());
    assert!(
        matches!(&error, Error::Detached { device, .. } if device == NAMES[1]),
        "{error}"
    );
    // The other continues, and the foreign program has the member's packets.
    group.send(1, 10..20);
    group.send(0, 0..10);
    assert_eq!(
        numbers(&mut *source, 10),
        (0..10).collect::<Vec<u16>>(),
        "of the other member"
    );
    assert_eq!(group.programs(), [0, 1, 1]);
    drop(source);
    assert_eq!(group.programs(), [0, 0, 1], "it is left where it is");
    drop(link);
}

pub(crate) fn new_names_are_nothing(master: Master) {
    let group = Group::new(master);
    let mut source = group.open();
    let mut netlink = group.right.netlink();
    group.send(0, 0..10);
    netlink.rename(NAMES[0], "other0").expect("free");
    netlink.rename(MASTER, "other1").expect("free");
    group.send(0, 10..20);
    group.send(1, 20..30);
    assert_eq!(
        numbers(&mut *source, 30),
        (0..30).collect::<Vec<u16>>(),
        "{}",
        source.describe()
    );
    assert!(
        matches!(source.next(), Ok(Next::TimedOut)),
        "nothing is told"
    );
}

pub(crate) fn one_that_is_moved_is_told(master: Master) {
    let group = Group::new(master);
    let elsewhere = Namespace::new();
    let mut source = group.open();
    let mut netlink = group.right.netlink();
    netlink
        .move_to(NAMES[1], elsewhere.as_fd())
        .expect("it exists");
    let error = told(&mut *source);
    assert!(matches!(error, Error::MemberGone { .. }), "{error}");
    assert_eq!(programs(&elsewhere, NAMES[1]), 0);
    group.send(0, 0..10);
    assert_eq!(numbers(&mut *source, 10).len(), 10);
}

pub(crate) fn none_is_told() {
    let namespace = Namespace::new();
    let mut netlink = namespace.netlink();
    let options_of_bridge = LinkOptions::default();
    let made = netlink.create("bridge", MASTER, &options_of_bridge);
    made.expect("a bridge");
    netlink.set_up(MASTER, true).expect("it exists");
    let host = Host {
        aggregates: &["bridge"],
        ..Host::default()
    };
    let opened = namespace.run(|| open_on(&host, &Group::device(), &options(), None));
    let error = opened.err().expect("refused");
    assert!(
        matches!(error, Error::Option(OptionError::NoMembers { .. })),
        "{error}"
    );
}
