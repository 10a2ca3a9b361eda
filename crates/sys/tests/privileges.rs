//! Drops real privileges, in a new process for each test.
//!
//! The program runs itself again with the scenario's name in the environment. There it drops
//! privileges before any thread starts, and then tries the forbidden calls.

use std::fs;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, ExitCode};

use ringtap_sys::helper::{Channel, Helper};
use ringtap_sys::netns::Namespace;
use ringtap_sys::privileges::{
    Capability, PrivilegeError, User, become_user, capabilities, has_capability, relinquish,
};
use ringtap_sys::sched;
use ringtap_testkit::process::run_again;
use ringtap_testkit::{Need, suite, test};

/// How often a thread is joined right before threads are counted.
const JOINS: usize = 500;
const SCENARIO: &str = "RINGTAP_PRIVILEGES_SCENARIO";
/// A scenario that another one starts.
const UNPRIVILEGED: &str = "with_threads_and_nothing_else";
const SCENARIOS: [(&str, fn()); 9] = [
    ("nothing_is_left", nothing_is_left),
    ("what_is_kept_works", what_is_kept_works),
    ("nobody_is_nobody_for_good", nobody_is_nobody_for_good),
    ("nobody_keeps_one_capability", nobody_keeps_one_capability),
    (
        "started_programs_gain_nothing",
        started_programs_gain_nothing,
    ),
    ("unknown_users_are_refused", unknown_users_are_refused),
    (
        "a_helper_keeps_what_the_program_gives_up",
        helper_keeps_rights,
    ),
    (
        "threads_matter_only_where_something_is_held",
        threads_of_others,
    ),
    ("threads_that_were_joined_do_not_count", joined_threads),
];

fn main() -> ExitCode {
    if let Ok(wanted) = std::env::var(SCENARIO) {
        if wanted == UNPRIVILEGED {
            with_threads_and_nothing_else();
            return ExitCode::SUCCESS;
        }
        let (_, scenario) = SCENARIOS
            .iter()
            .find(|(name, _)| *name == wanted)
            .expect("a scenario");
        scenario();
        return ExitCode::SUCCESS;
    }
    let scenarios = SCENARIOS
        .iter()
        .map(|&(name, _)| test(name, &[Need::Root], move || run_scenario(name)));
    let ordinary = test(
        "without_privileges_there_is_nothing_to_lose",
        &[],
        run_unprivileged,
    );
    let fifo = test(
        "real_time_priority_is_given",
        &[Need::Root],
        real_time_priority,
    );
    suite(scenarios.chain([ordinary, fifo]).collect())
}

/// The kernel still lists a thread for a moment after it was joined.
fn joined_threads() {
    for _ in 0..JOINS {
        std::thread::spawn(|| ()).join().expect("it ends");
        Helper::start("test", |_| ()).expect("no other thread");
    }
    std::thread::spawn(|| ()).join().expect("it ends");
    relinquish(None, &[]).expect("no other thread");
}

fn run_scenario(name: &str) {
    run_again(SCENARIO, name);
}

fn run_unprivileged() {
    // Dropping privileges twice is the same as having none to drop.
    run_scenario("nothing_is_left");
}

/// Returns the error number of opening a packet socket, if it fails.
fn packet_socket() -> Option<i32> {
    // SAFETY: no pointers are passed; the fd is closed at once.
    unsafe {
        let fd = libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0);
        if fd < 0 {
            return std::io::Error::last_os_error().raw_os_error();
        }
        libc::close(fd);
        None
    }
}

fn status(field: &str) -> String {
    let text = fs::read_to_string("/proc/self/status").expect("/proc is mounted");
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(field))
        .expect("a field of status");
    line.trim().to_owned()
}

fn nothing_is_left() {
    for _ in 0..2 {
        relinquish(None, &[]).expect("there is one thread");
        assert_eq!(packet_socket(), Some(libc::EPERM));
        assert_eq!(
            Namespace::new().expect_err("refused").errno(),
            Some(libc::EPERM)
        );
        for set in ["CapEff:", "CapPrm:", "CapInh:", "CapAmb:"] {
            assert_eq!(u64::from_str_radix(&status(set), 16), Ok(0), "{set}");
        }
        assert_eq!(status("NoNewPrivs:"), "1");
    }
}

fn what_is_kept_works() {
    assert_eq!(packet_socket(), None);
    relinquish(None, &[Capability::NET_RAW]).expect("there is one thread");
    assert_eq!(packet_socket(), None);
    assert_eq!(
        Namespace::new().expect_err("refused").errno(),
        Some(libc::EPERM)
    );
    assert!(has_capability(Capability::NET_RAW) && !has_capability(Capability::NET_ADMIN));
    let only = format!("{:016x}", 1 << 13);
    assert_eq!(
        (status("CapEff:"), status("CapPrm:")),
        (only.clone(), only.clone())
    );
    assert_eq!(status("CapBnd:"), only);
}

fn nobody_is_nobody_for_good() {
    let nobody = become_user("nobody").expect("every system has nobody");
    let four = |id: u32| {
        [
            id.to_string(),
            id.to_string(),
            id.to_string(),
            id.to_string(),
        ]
        .join("\t")
    };
    assert_eq!(status("Uid:"), four(nobody.uid));
    assert_eq!(status("Gid:"), four(nobody.gid));
    assert_eq!(status("Groups:"), nobody.gid.to_string());
    assert!(capabilities().expect("own").permitted.is_empty());
    assert_eq!(packet_socket(), Some(libc::EPERM));
    assert!(
        fs::read("/etc/shadow").is_err(),
        "root's files can still be read"
    );
    // SAFETY: the call takes numbers only.
    let back = unsafe { libc::setresuid(0, 0, 0) };
    assert_eq!(back, -1, "root can be regained");
}

fn nobody_keeps_one_capability() {
    let nobody = User::by_name("nobody").expect("every system has nobody");
    relinquish(Some(&nobody), &[Capability::NET_RAW]).expect("there is one thread");
    assert_eq!(packet_socket(), None);
    assert_eq!(
        Namespace::new().expect_err("refused").errno(),
        Some(libc::EPERM)
    );
    assert!(status("Uid:").starts_with(&nobody.uid.to_string()));
}

fn started_programs_gain_nothing() {
    // Without the two locks, a root process would regain its capabilities by starting a program.
    relinquish(None, &[]).expect("there is one thread");
    let output = Command::new("cat")
        .arg("/proc/self/status")
        .output()
        .expect("cat");
    let text = String::from_utf8(output.stdout).expect("status is text");
    for set in ["CapEff:", "CapPrm:", "CapBnd:"] {
        let bits = text
            .lines()
            .find_map(|line| line.strip_prefix(set))
            .expect("a set");
        assert_eq!(u64::from_str_radix(bits.trim(), 16), Ok(0), "{set}");
    }
}

fn unknown_users_are_refused() {
    let before = status("CapEff:");
    let error = become_user("no-such-user-here").expect_err("nobody has this name");
    assert!(matches!(&error, PrivilegeError::NoSuchUser { name } if name == "no-such-user-here"));
    assert_eq!(error.to_string(), "no such user: \"no-such-user-here\"");
    assert_eq!(
        status("CapEff:"),
        before,
        "a mistake in the name changes nothing"
    );
}

/// A process of root: its helper can read a file that the program can no longer read.
fn helper_keeps_rights() {
    let serve = |channel: &Channel| {
        let mut request = [0; 64];
        while let Ok(Some((length, _))) = channel.receive(&mut request) {
            assert_eq!(&request[..length], b"shadow");
            let file = fs::File::open("/etc/shadow").expect("root may");
            channel.send(b"here", Some(file.as_fd())).expect("sent");
        }
    };
    let helper = Helper::start("helper", serve).expect("one thread");
    let id = helper.id();
    become_user("nobody").expect("every system has nobody");
    assert!(fs::File::open("/etc/shadow").is_err());
    helper.channel().send(b"shadow", None).expect("sent");
    let mut reply = [0; 64];
    let received = helper.channel().receive(&mut reply).expect("a reply");
    let (_, fd) = received.expect("the helper lives");
    let mut file = fs::File::from(fd.expect("a descriptor"));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut file, &mut text).expect("readable");
    assert!(text.contains("root:"), "{text:?}");
    let name = fs::read_to_string(format!("/proc/{id}/comm")).expect("it lives");
    assert_eq!(name.trim(), "helper");
    drop(helper);
    assert!(
        !fs::exists(format!("/proc/{id}")).unwrap_or(true),
        "the helper is still there"
    );
}

/// A process without privileges may have threads; emulators start some.
fn threads_of_others() {
    let park = || std::thread::spawn(std::thread::park);
    let _first = park();
    let error = relinquish(None, &[]).expect_err("the other thread would keep its rights");
    assert!(matches!(error, PrivilegeError::Threads(2)), "{error}");
    // Started without any privilege, as by an ordinary user. The program may be in a folder that
    // only root can enter.
    let folder = tempfile::tempdir().expect("a folder");
    let everyone = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&folder, everyone).expect("its owner may");
    let copy = folder.path().join("program");
    fs::copy(std::env::current_exe().expect("its path"), &copy).expect("copied");
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(["--inh-caps=-all", "--bounding-set=-all"])
        .arg(&copy)
        .env(SCENARIO, UNPRIVILEGED)
        .output()
        .expect("setpriv");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn with_threads_and_nothing_else() {
    let _other = std::thread::spawn(std::thread::park);
    relinquish(None, &[]).expect("there is nothing to give up");
}

fn real_time_priority() {
    // SAFETY: the call takes a number only.
    let policy = || unsafe { libc::sched_getscheduler(0) };
    let thread = std::thread::spawn(move || {
        sched::set_fifo(1)?;
        Ok::<_, ringtap_sys::Error>(policy())
    });
    let inside = thread.join().expect("no panic").expect("root may");
    assert_eq!(inside & !libc::SCHED_RESET_ON_FORK, libc::SCHED_FIFO);
    assert_eq!(
        policy(),
        libc::SCHED_OTHER,
        "other threads stay as they are"
    );
}
