//! Tests the sandbox from within: each process confines itself, and then tries what an attacker
//! would.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Command, ExitCode, Output};
use std::time::{Duration, Instant};

use ringtap_sandbox::{Fence, Needs, Report, confine};
use ringtap_testkit::{suite, test};

const SCENARIO: &str = "RINGTAP_SANDBOX_SCENARIO";
const FOLDER: &str = "RINGTAP_SANDBOX_FOLDER";
/// The signal that ends a process at a fatal call.
const SIGSYS: i32 = 31;
const ENOSYS: i32 = 38;

type Scenario = (&'static str, fn());

const SCENARIOS: [Scenario; 7] = [
    ("files_that_are_not_named_cannot_be_opened", files),
    ("named_files_are_read_and_written", named),
    ("there_are_no_sockets", sockets),
    ("who_needs_the_network_has_it", network),
    ("no_process_is_started", processes),
    ("threads_time_and_memory_work", ordinary),
    ("panics_are_caught_and_told", panics),
];

fn main() -> ExitCode {
    if let Ok(wanted) = std::env::var(SCENARIO) {
        if wanted == FATAL {
            fatal();
            return ExitCode::SUCCESS;
        }
        let scenario = SCENARIOS.iter().find(|(name, _)| *name == wanted);
        scenario.expect("a scenario").1();
        return ExitCode::SUCCESS;
    }
    let scenarios = SCENARIOS
        .iter()
        .map(|&(name, _)| test(name, &[], move || succeeds(name)));
    let killed = test("execve_ends_the_process", &[], ends);
    suite(scenarios.chain([killed]).collect())
}

/// The scenario that ends its process.
const FATAL: &str = "execve";

fn run(name: &str) -> Output {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["in", "out"] {
        fs::create_dir(folder.path().join(name)).expect("a folder");
    }
    fs::write(folder.path().join("in/file"), "content").expect("a file");
    fs::write(folder.path().join("secret"), "of somebody").expect("a file");
    let program = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(program);
    command.env(SCENARIO, name).env(FOLDER, folder.path());
    command.output().expect("this program again")
}

fn succeeds(name: &str) {
    let output = run(name);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {text}", output.status);
}

fn ends() {
    let status = run(FATAL).status;
    assert_eq!(status.signal(), Some(SIGSYS), "{status}");
}

fn folder(name: &str) -> PathBuf {
    PathBuf::from(std::env::var_os(FOLDER).expect("a folder")).join(name)
}

/// Confines the process, with files in two folders. Returns the report; restrictions that the
/// kernel supports must be in force.
fn confined(network: bool, devices: bool) -> Report {
    let report = confine(&Needs {
        read: vec![folder("in"), "/proc/self".into()],
        write: vec![folder("out")],
        devices,
        network,
        ..Needs::default()
    });
    report.calls.as_ref().expect("a kernel with seccomp");
    report
}

/// Returns whether files are restricted: not before Linux 5.13, or if Landlock is disabled.
fn fences_files(report: &Report) -> bool {
    report.files.is_ok()
}

fn denied<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

fn absent<T>(result: io::Result<T>) -> bool {
    result.is_err_and(|error| error.raw_os_error() == Some(ENOSYS))
}

fn files() {
    let open = File::open(folder("secret")).expect("it is there");
    let report = confined(false, false);
    if fences_files(&report) {
        assert!(denied(File::open(folder("secret"))));
        assert!(denied(File::open("/etc/passwd")));
        assert!(denied(fs::read_dir("/")));
        assert!(denied(File::create(folder("in/file"))));
        assert!(denied(fs::remove_file(folder("secret"))));
    }
    // Open files stay open.
    assert_eq!(open.metadata().expect("an open file").len(), 11);
    // The calls for these are never allowed.
    assert!(fs::rename(folder("out"), folder("other")).is_err());
    assert!(std::os::unix::fs::symlink("/", folder("out/link")).is_err());
    assert!(fs::create_dir(folder("out/inner")).is_err());
}

fn named() {
    let report = confined(false, false);
    assert_eq!(fs::read(folder("in/file")).expect("named"), b"content");
    let mut file = File::create(folder("out/new")).expect("named");
    file.write_all(b"text").expect("written");
    file.set_len(2).expect("cut");
    assert_eq!(fs::read(folder("out/new")).expect("named"), b"te");
    fs::remove_file(folder("out/new")).expect("named");
    if let Ok(Fence { rules, .. }) = report.files {
        assert_eq!(rules, 3);
    }
    let text = report.to_string();
    assert!(text.contains("allowed (seccomp)"), "{text}");
}

fn sockets() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("an address");
    confined(false, false);
    assert!(absent(UdpSocket::bind("127.0.0.1:0")));
    assert!(absent(TcpStream::connect(address)));
    assert!(absent(UnixDatagram::unbound()));
}

fn network() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let address = listener.local_addr().expect("an address");
    confined(true, false);
    UdpSocket::bind("127.0.0.1:0").expect("needed");
    TcpStream::connect(address).expect("needed");
}

fn processes() {
    confined(true, true);
    // The C library starts a process with a call that is allowed for threads only.
    let error = Command::new("/bin/true").spawn().expect_err("no process");
    assert!(
        matches!(error.raw_os_error(), Some(ENOSYS)),
        "{error}: {error:?}"
    );
}

fn fatal() {
    confined(true, true);
    let error = Command::new("/bin/true").exec();
    panic!("execve came back: {error}");
}

fn ordinary() {
    confined(false, false);
    let thread = std::thread::Builder::new().name("worker".into());
    let thread = thread.spawn(|| {
        std::thread::sleep(Duration::from_millis(1));
        let memory = vec![1_u8; 64 << 20];
        memory.iter().map(|&byte| u64::from(byte)).sum::<u64>()
    });
    let thread = thread.expect("a thread");
    assert_eq!(thread.join().expect("no panic"), 64 << 20);
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || sender.send(Instant::now()));
    receiver
        .recv_timeout(Duration::from_secs(60))
        .expect("a message");
    let names = std::collections::HashMap::from([("a", 1)]);
    assert_eq!(names["a"], 1);
    println!("{:?}", std::thread::available_parallelism());
}

fn panics() {
    confined(false, false);
    let caught = std::panic::catch_unwind(|| panic!("on purpose"));
    assert!(caught.is_err());
    let text = std::backtrace::Backtrace::force_capture().to_string();
    assert!(!text.is_empty());
}
