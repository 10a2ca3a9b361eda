//! Creates and removes real namespaces and interfaces.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use ringtap_sys::netlink::{Error, LinkOptions, Veth};
use ringtap_sys::netns::{self, UserNamespaceError, enter_user_namespace};
use ringtap_testkit::netns::{Namespace, VethOptions, VethPair};
use ringtap_testkit::process::run_again;
use ringtap_testkit::{Need, suite, test};

/// Set when this program runs itself to enter a user namespace.
const INNER: &str = "RINGTAP_NETNS_INNER";
/// Set when this program runs itself to be killed: the namespace of the other end of its veth pair.
const VICTIM: &str = "RINGTAP_NETNS_VICTIM";

fn main() -> ExitCode {
    if std::env::var_os(INNER).is_some() {
        return inside_user_namespace();
    }
    if let Some(path) = std::env::var_os(VICTIM) {
        hold_until_killed(&PathBuf::from(path));
    }
    let root = &[Need::Root];
    suite(vec![
        test("traffic_crosses_a_veth_pair", root, traffic_crosses),
        test("traffic_crosses_by_ipv6", root, traffic_crosses_by_ipv6),
        test("namespace_goes_with_its_last_holder", root, namespace_goes),
        test("namespace_goes_on_panic", root, namespace_goes_on_panic),
        test(
            "nothing_outlives_a_killed_process",
            root,
            nothing_outlives_a_killed_process,
        ),
        test(
            "closures_run_inside_and_nowhere_else",
            root,
            closures_run_inside,
        ),
        test(
            "panics_in_closures_reach_the_caller",
            root,
            panics_reach_the_caller,
        ),
        test("commands_run_inside", root, commands_run_inside),
        test(
            "other_programs_enter_by_path",
            &[Need::Root, Need::Tool("nsenter")],
            enter_by_path,
        ),
        test(
            "interfaces_are_made_changed_and_removed",
            root,
            interfaces_change,
        ),
        test("errors_name_the_request", root, errors_name_the_request),
        test(
            "user_namespace_needs_a_single_thread",
            &[],
            needs_a_single_thread,
        ),
        test(
            "user_namespace_gives_capabilities",
            &[Need::UserNamespace],
            user_namespace,
        ),
    ])
}

fn own_inode() -> u64 {
    netns::Namespace::current()
        .and_then(|n| n.inode())
        .expect("/proc is mounted")
}

fn exchange(pair: &VethPair, from: IpAddr, to: IpAddr) {
    let receiver = pair
        .right
        .run(|| UdpSocket::bind((to, 4000)))
        .expect("an address to bind");
    receiver
        .set_read_timeout(Some(Duration::from_secs(5)))
        .expect("a time limit");
    let sender = pair
        .left
        .run(|| UdpSocket::bind((from, 0)))
        .expect("an address to bind");
    sender
        .send_to(b"over the wire", (to, 4000))
        .expect("a route");
    let mut buffer = [0; 64];
    let (len, source) = receiver
        .recv_from(&mut buffer)
        .expect("the datagram arrives");
    assert_eq!(&buffer[..len], b"over the wire");
    assert_eq!(source.ip(), from);
}

fn traffic_crosses() {
    let pair = VethPair::new();
    exchange(&pair, pair.left.ipv4.into(), pair.right.ipv4.into());
}

fn traffic_crosses_by_ipv6() {
    let pair = VethPair::with(&VethOptions {
        ipv6: true,
        ..VethOptions::default()
    });
    exchange(&pair, pair.left.ipv6.into(), pair.right.ipv6.into());
}

/// Returns true when the namespace of a pair's other end is gone. The kernel then removes this end
/// too, by a worker that all namespaces of the machine share.
fn vanishes(namespace: &Namespace, device: &str) -> bool {
    let mut netlink = namespace.netlink();
    for _ in 0..60_000 {
        if matches!(netlink.index(device), Err(Error::NoLink { .. })) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    false
}

fn namespace_goes() {
    let VethPair { left, right } = VethPair::new();
    let device = left.device.clone();
    assert!(left.namespace.netlink().index(&device).is_ok());
    drop(right);
    assert!(
        vanishes(&left.namespace, &device),
        "{device} outlives its peer's namespace"
    );
}

fn namespace_goes_on_panic() {
    let left = Namespace::new();
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let pair = VethPair::new();
        pair.right
            .namespace
            .netlink()
            .move_to("veth1", left.as_fd())
            .expect("a veth moves");
        panic!("on purpose");
    }));
    assert!(caught.is_err());
    assert!(vanishes(&left, "veth1"), "the pair outlives the panic");
}

fn nothing_outlives_a_killed_process() {
    let here = Namespace::new();
    let program = std::env::current_exe().expect("the path of this program");
    let mut victim = Command::new(program)
        .env(VICTIM, here.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program again");
    let mut ready = [0; 5];
    let mut stdout = victim.stdout.take().expect("a pipe");
    stdout.read_exact(&mut ready).expect("the victim is ready");
    assert!(here.netlink().index("end0").is_ok());
    victim.kill().expect("SIGKILL");
    victim.wait().expect("it is dead");
    assert!(
        vanishes(&here, "end0"),
        "a veth pair outlives the process that made it"
    );
}

/// Creates a namespace with a veth pair whose other end is in the namespace behind `path`, reports
/// that it is ready, and waits for ever.
fn hold_until_killed(path: &Path) -> ! {
    let own = netns::Namespace::new().expect("a namespace");
    let other = netns::Namespace::open(path).expect("the namespace of the test");
    let veth = Veth {
        peer_namespace: Some(other.as_fd()),
        ..Veth::new("end1", "end0")
    };
    own.netlink()
        .and_then(|mut netlink| netlink.create_veth(&veth))
        .expect("a pair");
    print!("ready");
    std::io::stdout().flush().expect("a pipe");
    loop {
        std::thread::park();
    }
}

fn closures_run_inside() {
    let outside = own_inode();
    let namespace = Namespace::new();
    let inside = namespace.run(own_inode);
    assert_eq!(inside, namespace.inode().expect("an open namespace"));
    assert_ne!(inside, outside);
    assert_eq!(own_inode(), outside);
}

fn panics_reach_the_caller() {
    let namespace = Namespace::new();
    let panic = catch_unwind(AssertUnwindSafe(|| namespace.run(|| panic!("from within"))));
    let payload = panic.expect_err("the closure panics");
    assert_eq!(payload.downcast_ref::<&str>(), Some(&"from within"));
}

fn commands_run_inside() {
    let namespace = Namespace::new();
    let output = namespace.output("readlink", &["/proc/self/ns/net"]);
    let text = String::from_utf8(output.stdout).expect("a link of digits");
    assert_eq!(
        text.trim(),
        format!("net:[{}]", namespace.inode().expect("open"))
    );
}

fn enter_by_path() {
    let namespace = Namespace::new();
    let net = format!("--net={}", namespace.path().display());
    let output = Command::new("nsenter")
        .args([&net, "readlink", "/proc/self/ns/net"])
        .output();
    let text = String::from_utf8(output.expect("nsenter").stdout).expect("a link of digits");
    assert_eq!(
        text.trim(),
        format!("net:[{}]", namespace.inode().expect("open"))
    );
}

fn interfaces_change() {
    let pair = VethPair::with(&VethOptions {
        queues: Some(4),
        ..VethOptions::default()
    });
    let mut netlink = pair.left.namespace.netlink();
    let index = netlink.index("veth0").expect("the end");
    let long = "a-name-longer-than-fifteen-bytes";
    netlink
        .add_altname("veth0", long)
        .expect("an alternative name");
    netlink
        .add_altname("veth0", "short")
        .expect("an alternative name");
    assert_eq!(netlink.index(long).expect("found by it"), index);
    assert_eq!(netlink.index("short").expect("found by it"), index);
    netlink
        .remove_altname("veth0", "short")
        .expect("it was given");
    assert!(matches!(netlink.index("short"), Err(Error::NoLink { .. })));
    netlink.set_up("veth0", false).expect("down");
    netlink.rename("veth0", "renamed").expect("a free name");
    netlink
        .set_mtu("renamed", 9000)
        .expect("veth takes jumbo frames");
    netlink
        .set_mac("renamed", [2, 0, 0, 0, 0, 9])
        .expect("a unicast address");
    netlink
        .set_promiscuous("renamed", true)
        .expect("promiscuous");
    assert_eq!(netlink.index("renamed").expect("the same"), index);
    netlink
        .create_macvlan("renamed", "sub0", &LinkOptions::default())
        .expect("a macvlan");
    netlink.delete("sub0").expect("it exists");
    netlink.delete("renamed").expect("it exists");
    let mut other = pair.right.namespace.netlink();
    assert!(
        matches!(other.index("veth1"), Err(Error::NoLink { .. })),
        "both ends go"
    );
}

fn errors_name_the_request() {
    let namespace = Namespace::new();
    let mut netlink = namespace.netlink();
    let error = netlink
        .create("no-such-kind", "x0", &LinkOptions::default())
        .expect_err("no kind");
    assert_eq!(error.errno(), Some(libc_eopnotsupp()));
    assert!(error.to_string().starts_with("RTM_NEWLINK x0"), "{error}");
    let address = IpAddr::from(Ipv4Addr::new(10, 0, 0, 1));
    let error = netlink
        .add_address("lo", address, 33)
        .expect_err("a prefix of 33 bits");
    assert!(error.to_string().contains("10.0.0.1/33 on lo"), "{error}");
    let error = netlink
        .rename("lo", "sixteen-bytes-xx")
        .expect_err("too long");
    assert!(matches!(error, Error::Name { limit: 15, .. }), "{error}");
    let error = netns::Namespace::open("/nowhere".as_ref()).expect_err("no such path");
    assert_eq!(error.source.kind(), ErrorKind::NotFound);
}

/// Returns `EOPNOTSUPP` (include/uapi/asm-generic/errno.h).
fn libc_eopnotsupp() -> i32 {
    95
}

fn needs_a_single_thread() {
    // On a new thread, because a suite may run its tests on the main one.
    let result = std::thread::spawn(enter_user_namespace)
        .join()
        .expect("no panic");
    assert!(
        matches!(result, Err(UserNamespaceError::Threads(n)) if n > 1),
        "{result:?}"
    );
}

fn user_namespace() {
    run_again(INNER, "1");
}

/// Creates a pair and sends over it, with root only in the user namespace.
fn inside_user_namespace() -> ExitCode {
    enter_user_namespace().expect("the suite asked for it only where it is possible");
    traffic_crosses();
    ExitCode::SUCCESS
}
