//! The privileges of each command while it handles packets: its user, its capabilities, and the owner of the
//! files that it creates. Seen from outside, in `/proc` and in the file system.
#![forbid(unsafe_code)]

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::time::{Duration, Instant};

use ringtap_sys::privileges::User;
use ringtap_testkit::netns::VethPair;
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::Traffic;
use ringtap_testkit::{Need, suite, test};

const RINGTAP: &str = env!("CARGO_BIN_EXE_ringtap");
/// For what should end by itself; a hang fails the test instead of stopping all.
const LIMIT: Duration = Duration::from_secs(60);
/// No capability, as `/proc` has it.
const NONE: &str = "0000000000000000";
/// `CAP_NET_ADMIN`, which a tap at clsact keeps to remove its filters (docs/explanation/privileges.md).
const NET_ADMIN: &str = "0000000000001000";

fn main() -> ExitCode {
    let root = &[Need::Root];
    suite(vec![
        test("live_commands_hold_nothing", root, live_commands),
        test("commands_that_read_hold_nothing", root, reading_commands),
        test("z_root_keeps_the_user_only", root, stays_root),
        test("z_names_another_user", root, another_user),
        test("files_belong_to_who_started_it", root, owner_of_files),
        test("files_of_z_belong_to_its_user", root, files_of_user),
        test(
            "a_series_of_files_lands_where_only_root_writes",
            root,
            series,
        ),
        test("commands_of_z_run_with_the_starters_rights", root, commands),
        test("the_helper_opens_no_other_files", root, no_other_files),
        test("inputs_that_only_root_reads_are_read", root, inputs),
        test(
            "a_user_namespace_with_one_user_is_no_obstacle",
            &[Need::Root, Need::Tool("unshare")],
            user_namespace,
        ),
        test(
            "a_thread_of_somebody_else_does_not_keep_files_from_being_read",
            &[Need::Root, Need::Tool("cc"), Need::Tool("setpriv")],
            threads_of_others,
        ),
        test(
            "a_mapped_file_is_given_back_to_who_would_write_it",
            &[Need::Root, Need::Tool("taskset")],
            mapped,
        ),
        test(
            "a_helper_keeps_what_must_be_reverted_or_asked_for",
            &[Need::Root, Need::Tcx],
            keeper,
        ),
        test("no_sandbox_leaves_it_out", root, without_sandbox),
        test("explained_is_what_is_held", root, explained),
        test(
            "nothing_runs_with_the_set_user_id_bit",
            &[Need::Root, Need::Tool("setpriv")],
            set_user_id,
        ),
        test(
            "a_folder_that_another_user_has_linked_is_refused",
            root,
            linked_folder,
        ),
        test(
            "a_fifo_without_a_reader_leaves_no_process",
            &[Need::Root, Need::Tool("mkfifo")],
            fifo_without_reader,
        ),
        test(
            "a_fifo_that_another_user_has_planted_is_refused",
            &[Need::Root, Need::Tool("mkfifo")],
            planted_fifo,
        ),
    ])
}

/// Returns the account that root becomes.
fn unprivileged() -> User {
    User::instead_of_root()
        .expect("a user database")
        .expect("nobody")
}

fn status(id: u32) -> String {
    fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default()
}

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let mut lines = status.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_default().trim()
}

/// Returns whether all identities are those of the user, and no thread can regain anything.
fn is_bare(id: u32, uid: u32) -> bool {
    let tasks = fs::read_dir(format!("/proc/{id}/task"));
    let tasks: Vec<_> = tasks.into_iter().flatten().flatten().collect();
    let is_clsact = Need::Tcx.unmet().is_some();
    let all = tasks.iter().all(|task| {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let users: Vec<&str> = field(&status, "Uid").split_whitespace().collect();
        let none = |set: &str| field(&status, set) == NONE;
        let kept = |set: &str| is_clsact && field(&status, set) == NET_ADMIN;
        users == vec![uid.to_string(); 4]
            && ["CapInh", "CapAmb"].into_iter().all(none)
            && ["CapPrm", "CapEff", "CapBnd"]
                .into_iter()
                .all(|set| none(set) || kept(set))
            && field(&status, "NoNewPrivs") == "1"
    });
    !tasks.is_empty() && all
}

/// Returns whether SIGINT is caught, by the mask in `/proc` (proc(5), `SigCgt`).
fn handles_signals(id: u32) -> bool {
    const SIGINT_BIT: u64 = 1 << 1;
    let mask = u64::from_str_radix(field(&status(id), "SigCgt"), 16);
    mask.is_ok_and(|mask| mask & SIGINT_BIT != 0)
}

fn wait_for_handlers(id: u32) {
    let deadline = Instant::now() + LIMIT;
    while !handles_signals(id) {
        assert!(Instant::now() < deadline, "{}", status(id));
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the process holds nothing: privileges go when sockets and programs are open.
fn wait_until_bare(running: &mut Running, uid: u32) {
    let deadline = Instant::now() + LIMIT;
    while !is_bare(running.id(), uid) {
        let text = status(running.id());
        assert!(!running.has_ended() && Instant::now() < deadline, "{text}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Asks for the end, once that is understood, and waits for it.
fn interrupted(running: Running) -> Output {
    wait_for_handlers(running.id());
    running.signal("INT").expect("a signal");
    let output = running.wait(LIMIT).expect("it ends");
    assert!(
        output.status.success(),
        "{}: {}",
        output.status,
        stderr(&output)
    );
    output
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn finished(command: &mut Command) -> Output {
    let running = Running::start_piped(command).expect("ringtap starts");
    running.wait(LIMIT).expect("it ends")
}

/// The kernel that has what the tap needs.
const TAP: Need = Need::Kernel(5, 12);

fn live_commands() {
    let pair = VethPair::new();
    let (folder, input) = Traffic::file_of(10_000);
    let input = input.to_str().expect("a name");
    let device = &pair.right.device;
    let packet = format!("packet:{device}");
    let tcx = format!("tcx:{device}");
    let mut cases = vec![
        vec!["dump", "-i", device, "-w", "/dev/null"],
        vec!["dump", "-i", &packet, "--threads", "2", "-w", "/dev/null"],
        vec!["dump", "-i", "any", "-w", "/dev/null"],
        // Before Linux 6.6 at clsact, where somebody with a privilege has to remove the programs.
        vec!["dump", "-i", &tcx, "-w", "/dev/null"],
        vec!["dump", "-i", "tcx:any", "-w", "/dev/null"],
        vec!["flow", "-i", &tcx],
        vec!["flow", "-i", device],
        vec!["flow", "-i", device, "--threads", "2"],
        vec!["flow", "--collect", "udp:127.0.0.1:0"],
        vec!["stat", "-i", device, "udp"],
        vec!["send", "-i", device, "-r", input, "--pps", "100"],
        vec!["gen", "-i", device, "--pps", "100", "--count", "1000000"],
        vec!["gen", "-i", device, "--receive"],
    ];
    if TAP.unmet().is_some() {
        cases.retain(|case| !case.iter().any(|word| word.starts_with("tcx:")));
    }
    for case in cases {
        let mut command = pair.right.namespace.command(RINGTAP);
        let mut running = Running::start_piped(command.args(&case)).expect("ringtap starts");
        wait_until_bare(&mut running, unprivileged().uid);
        // Once it handles signals, threads run: none of them holds more.
        wait_for_handlers(running.id());
        assert!(is_bare(running.id(), unprivileged().uid), "{case:?}");
        assert_eq!(field(&status(running.id()), "Seccomp"), "2", "{case:?}");
        interrupted(running);
    }
    drop(folder);
}

fn reading_commands() {
    let (folder, _) = Traffic::file_of(1);
    let fifo = folder.path().join("fifo");
    let made = Command::new("mkfifo").arg(&fifo).status();
    assert!(made.expect("mkfifo").success());
    for command in ["dump", "flow"] {
        let mut ringtap = Command::new(RINGTAP);
        let mut running =
            Running::start_piped(ringtap.arg(command).arg("-r").arg(&fifo)).expect("it starts");
        // It waits for the FIFO's writer, and has given up its privileges before it reads a byte.
        wait_until_bare(&mut running, unprivileged().uid);
        running.signal("INT").expect("a signal");
        running.wait(LIMIT).expect("it ends");
    }
}

fn stays_root() {
    let pair = VethPair::new();
    let mut command = pair.right.namespace.command(RINGTAP);
    command.args([
        "dump",
        "-Z",
        "root",
        "-w",
        "/dev/null",
        "-i",
        &pair.right.device,
    ]);
    let mut running = Running::start_piped(&mut command).expect("ringtap starts");
    wait_until_bare(&mut running, 0);
    interrupted(running);
}

fn another_user() {
    let pair = VethPair::new();
    let daemon = User::by_name("daemon").expect("every system has it");
    for command in ["stat", "flow"] {
        let mut ringtap = pair.right.namespace.command(RINGTAP);
        ringtap.args([command, "-Z", "daemon", "-i", &pair.right.device]);
        if command == "stat" {
            ringtap.arg("udp");
        }
        let mut running = Running::start_piped(&mut ringtap).expect("ringtap starts");
        wait_until_bare(&mut running, daemon.uid);
        interrupted(running);
    }
}

fn owner(path: &Path) -> u32 {
    let metadata = fs::metadata(path);
    metadata
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        .uid()
}

fn succeeded(command: &mut Command) -> Output {
    let output = finished(command);
    assert!(output.status.success(), "{}", stderr(&output));
    output
}

fn owner_of_files() {
    let (folder, input) = Traffic::file_of(100);
    let [pcap, csv] = ["out.pcap", "out.csv"].map(|name| folder.path().join(name));
    let mut dump = Command::new(RINGTAP);
    dump.args(["dump", "--index", "-r"])
        .arg(&input)
        .arg("-w")
        .arg(&pcap);
    succeeded(&mut dump);
    let index = folder.path().join("out.pcap.idx");
    let mut flow = Command::new(RINGTAP);
    succeeded(flow.args(["flow", "-r"]).arg(&input).arg("-w").arg(&csv));
    for path in [&pcap, &index, &csv] {
        assert_eq!(owner(path), 0, "{}", path.display());
    }
    let pair = VethPair::new();
    let live = folder.path().join("live.pcapng");
    let mut command = pair.right.namespace.command(RINGTAP);
    command
        .args(["dump", "-i", &pair.right.device, "-w"])
        .arg(&live);
    let mut running = Running::start_piped(&mut command).expect("ringtap starts");
    running
        .wait_until_capturing(&pair.right, LIMIT)
        .expect("it captures");
    wait_until_bare(&mut running, unprivileged().uid);
    interrupted(running);
    assert_eq!(owner(&live), 0);
}

/// Returns the folder for everybody, with one in it.
fn open_folder(folder: &Path) -> PathBuf {
    let inner = folder.join("open");
    fs::create_dir(&inner).expect("a folder");
    for path in [folder, &inner] {
        fs::set_permissions(path, Permissions::from_mode(0o777)).expect("rights");
    }
    inner
}

/// The owner of a link in a sticky folder decides, also on the way to the file.
fn linked_folder() {
    let (folder, input) = Traffic::file_of(10);
    let sticky = folder.path().join("sticky");
    fs::create_dir(&sticky).expect("a folder");
    fs::set_permissions(&sticky, Permissions::from_mode(0o1777)).expect("rights");
    let safe = folder.path().join("safe");
    fs::create_dir(&safe).expect("a folder");
    let daemon = User::by_name("daemon").expect("every system has it");
    let [own, foreign] = ["own", "foreign"].map(|name| {
        let link = sticky.join(name);
        std::os::unix::fs::symlink(&safe, &link).expect("a link");
        link
    });
    std::os::unix::fs::lchown(&foreign, Some(daemon.uid), None).expect("root");
    let dump = |link: &Path| {
        let mut ringtap = Command::new(RINGTAP);
        ringtap.args(["dump", "-r"]).arg(&input);
        finished(ringtap.arg("-w").arg(link.join("f.pcap")))
    };
    let output = dump(&foreign);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("a symbolic link of another user"), "{text}");
    assert!(!safe.join("f.pcap").exists());
    let output = dump(&own);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(safe.join("f.pcap").exists());
}

fn files_of_user() {
    let (folder, input) = Traffic::file_of(100);
    let place = open_folder(folder.path());
    let daemon = User::by_name("daemon").expect("every system has it");
    let [pcap, csv] = ["out.pcap", "out.csv"].map(|name| place.join(name));
    let mut dump = Command::new(RINGTAP);
    dump.args(["dump", "-Z", "daemon", "-r"])
        .arg(&input)
        .arg("-w")
        .arg(&pcap);
    succeeded(&mut dump);
    let mut flow = Command::new(RINGTAP);
    flow.args(["flow", "-Z", "daemon", "-r"])
        .arg(&input)
        .arg("-w")
        .arg(&csv);
    succeeded(&mut flow);
    assert_eq!((owner(&pcap), owner(&csv)), (daemon.uid, daemon.uid));
    // Not through a link to a file that the user may not write to.
    let precious = folder.path().join("precious");
    fs::write(&precious, "of root").expect("a file");
    for (name, command) in [("link.pcap", "dump"), ("link.csv", "flow")] {
        let link = place.join(name);
        std::os::unix::fs::symlink(&precious, &link).expect("a link");
        let mut ringtap = Command::new(RINGTAP);
        ringtap
            .args([command, "-Z", "daemon", "-r"])
            .arg(&input)
            .arg("-w")
            .arg(&link);
        let output = finished(&mut ringtap);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let hint = "with -Z, files are opened as user daemon";
        assert!(stderr(&output).contains(hint), "{}", stderr(&output));
        assert_eq!(fs::read(&precious).expect("a file"), b"of root");
    }
}

fn series() {
    let (folder, input) = Traffic::file_of(20_000);
    let place = folder.path().join("place");
    fs::create_dir(&place).expect("a folder");
    fs::set_permissions(&place, Permissions::from_mode(0o700)).expect("rights");
    for options in [
        &["-C", "200K", "-W", "3"][..],
        &["-C", "200K", "--index", "--compress", "zstd"],
    ] {
        let mut command = Command::new(RINGTAP);
        command.args(["dump", "-r"]).arg(&input);
        command.arg("-w").arg(place.join("f.pcap")).args(options);
        succeeded(&mut command);
        let files: Vec<_> = fs::read_dir(&place).expect("a folder").flatten().collect();
        assert!(files.len() >= 3, "{files:?}");
        for file in files {
            assert_eq!(owner(&file.path()), 0, "{file:?}");
            fs::remove_file(file.path()).expect("removed");
        }
    }
}

fn commands() {
    let (folder, input) = Traffic::file_of(20_000);
    let told = folder.path().join("told");
    let script = folder.path().join("command");
    // A root process can write where only root can, and reads the given file.
    let text = format!(
        "#!/bin/sh\nid -u >> {0}\nwc -c < \"$1\" >> {0}\n",
        told.display()
    );
    fs::write(&script, text).expect("a script");
    fs::set_permissions(&script, Permissions::from_mode(0o700)).expect("rights");
    let mut command = Command::new(RINGTAP);
    command.args(["dump", "-r"]).arg(&input);
    command.arg("-w").arg(folder.path().join("f.pcap"));
    command.args(["-C", "500K", "-z"]).arg(&script);
    succeeded(&mut command);
    let text = fs::read_to_string(&told).expect("the command has run");
    let users = text.lines().filter(|line| *line == "0").count();
    assert!(users >= 2, "{text}");
    // As the user of -Z, if one is named.
    let place = open_folder(folder.path());
    let told = place.join("told");
    let text = format!("#!/bin/sh\nid -u >> {}\n", told.display());
    fs::write(&script, text).expect("a script");
    fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("rights");
    let mut command = Command::new(RINGTAP);
    command.args(["dump", "-Z", "daemon", "-r"]).arg(&input);
    command.arg("-w").arg(place.join("f.pcap"));
    command.args(["-C", "500K", "-z"]).arg(&script);
    succeeded(&mut command);
    let daemon = User::by_name("daemon").expect("every system has it").uid;
    let text = fs::read_to_string(&told).expect("the command has run");
    assert!(
        text.lines().all(|line| line == daemon.to_string()),
        "{text}"
    );
}

/// A file that is not named is not opened with anybody else's rights: the index of a capture is looked
/// for beside it, and a name in a list is one of the list.
fn no_other_files() {
    let (folder, input) = Traffic::file_of(10);
    let secret = folder.path().join("secret");
    fs::write(&secret, "of root").expect("a file");
    fs::set_permissions(&secret, Permissions::from_mode(0o600)).expect("rights");
    let mut command = Command::new(RINGTAP);
    command.args(["dump", "-Z", "nobody", "-r"]).arg(&input);
    command.arg("-w").arg(folder.path().join("out.pcap"));
    let output = finished(&mut command);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("ermission denied"),
        "{}",
        stderr(&output)
    );
    assert!(!folder.path().join("out.pcap").exists());
}

fn inputs() {
    let (folder, input) = Traffic::file_of(100);
    fs::set_permissions(&input, Permissions::from_mode(0o600)).expect("rights");
    let second = folder.path().join("second.pcap");
    fs::copy(&input, &second).expect("copied");
    let expression = folder.path().join("filter");
    fs::write(&expression, "udp or tcp").expect("a file");
    let mut command = Command::new(RINGTAP);
    command
        .args(["dump", "-w", "/dev/null", "-r"])
        .arg(&input)
        .arg("-r")
        .arg(&second);
    command.arg("-F").arg(&expression);
    let text = stderr(&succeeded(&mut command));
    assert!(text.contains("200 packets captured"), "{text}");
    let mut flow = Command::new(RINGTAP);
    flow.args(["flow", "--json-stats", "-r"])
        .arg(&input)
        .arg("-r")
        .arg(&second);
    succeeded(&mut flow);
    let mut filter = Command::new(RINGTAP);
    let output = succeeded(filter.args(["filter", "-F"]).arg(&expression));
    assert!(String::from_utf8_lossy(&output.stdout).contains("ret"));
    // Several times over, from the kept way to the file.
    let pair = VethPair::new();
    let mut send = pair.right.namespace.command(RINGTAP);
    send.args([
        "send",
        "--topspeed",
        "--loop",
        "3",
        "--json-stats",
        "-i",
        &pair.right.device,
    ]);
    let text = stderr(&succeeded(send.arg("-r").arg(&input)));
    assert!(text.contains("300"), "{text}");
}

fn user_namespace() {
    let (folder, input) = Traffic::file_of(100);
    let output = folder.path().join("out.pcap");
    let mut command = Command::new("unshare");
    command
        .args(["-Ur", RINGTAP, "dump", "-r"])
        .arg(&input)
        .arg("-w")
        .arg(&output);
    succeeded(&mut command);
    assert_eq!(owner(&output), 0);
    let mut live = Command::new("unshare");
    live.args([
        "-Urn",
        RINGTAP,
        "dump",
        "--explain-capture",
        "-i",
        "any",
        "-w",
        "/dev/null",
    ]);
    let mut running = Running::start_piped(&mut live).expect("it starts");
    running
        .wait_until_told("root's identity stays", LIMIT)
        .expect("it is told");
    wait_until_bare(&mut running, 0);
    interrupted(running);
}

/// As under an emulator or a sanitizer, which start threads before the program begins.
fn threads_of_others() {
    const SOURCE: &str = "#include <pthread.h>
#include <unistd.h>
static void *rest(void *nothing) { for (;;) pause(); return nothing; }
__attribute__((constructor)) static void begin(void)
{ pthread_t thread; pthread_create(&thread, 0, rest, 0); }
";
    let (folder, input) = Traffic::file_of(10);
    let [source, library] = ["thread.c", "thread.so"].map(|name| folder.path().join(name));
    fs::write(&source, SOURCE).expect("a file");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"])
        .arg(&library)
        .arg(&source);
    succeeded(cc.arg("-pthread"));
    // Root's privileges cannot be given up for the other thread, which is reported.
    let mut command = Command::new(RINGTAP);
    command
        .env("LD_PRELOAD", &library)
        .args(["dump", "-r"])
        .arg(&input);
    let output = succeeded(&mut command);
    assert_eq!(
        output.stdout.iter().filter(|&&byte| byte == b'\n').count(),
        10
    );
    let text = stderr(&output);
    assert!(text.contains("privileges are kept"), "{text}");
    // Without privileges there is nothing to report.
    let mut command = Command::new("setpriv");
    command.args(["--bounding-set=-all", "--inh-caps=-all", "env"]);
    command.arg(format!("LD_PRELOAD={}", library.display()));
    let output = succeeded(command.args([RINGTAP, "dump", "-r"]).arg(&input));
    let text = stderr(&output);
    assert!(!text.contains("privileges"), "{text}");
    // A capture needs its privileges to go.
    let mut command = Command::new(RINGTAP);
    command
        .env("LD_PRELOAD", &library)
        .args(["dump", "-i", "lo", "-c", "1"]);
    let output = finished(&mut command);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
}

/// One thread reads a mapped file, under a lease that only its owner can take: the helper process has.
fn mapped() {
    let (folder, input) = Traffic::file_of(300_000);
    let mut command = Command::new("taskset");
    command.args([
        "-c",
        "0",
        RINGTAP,
        "flow",
        "--top",
        "0",
        "--json-stats",
        "-r",
    ]);
    let running = Running::start_piped(command.arg(&input)).expect("it starts");
    // A process that opens the file for writing waits at most for the mapping, not for the run.
    for _ in 0..20 {
        drop(File::options().append(true).open(&input).expect("granted"));
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = running.wait(LIMIT).expect("it ends");
    let text = stderr(&output);
    assert!(output.status.success() && text.contains("300000"), "{text}");
    drop(folder);
}

fn without_sandbox() {
    let pair = VethPair::new();
    let mut command = pair.right.namespace.command(RINGTAP);
    command.args([
        "dump",
        "--no-sandbox",
        "--explain-capture",
        "-w",
        "/dev/null",
    ]);
    let mut running =
        Running::start_piped(command.args(["-i", &pair.right.device])).expect("it starts");
    wait_until_bare(&mut running, unprivileged().uid);
    assert_eq!(field(&status(running.id()), "Seccomp"), "0");
    let text = stderr(&interrupted(running));
    assert!(text.contains("sandbox: none"), "{text}");
}

fn explained() {
    let pair = VethPair::new();
    let mut command = pair.right.namespace.command(RINGTAP);
    command.args(["stat", "--explain-capture", "-c", "1", "--interval", "10ms"]);
    let text = stderr(&succeeded(command.args(["-i", &pair.right.device, "udp"])));
    let user = unprivileged();
    let told = format!("user: {}, group {}", user.name, user.gid);
    // Counting at clsact has filters to remove: another process does that.
    let kept = "capabilities: none";
    assert!(
        text.contains(&told) && text.contains(kept) && text.contains("allowed (seccomp)"),
        "{text}"
    );
}

fn make_fifo(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status();
    assert!(made.is_ok_and(|status| status.success()));
}

fn set_user_id() {
    let (folder, path) = Traffic::file_of(10);
    let program = folder.path().join("ringtap");
    fs::copy(RINGTAP, &program).expect("a copy");
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).expect("permissions");
    fs::set_permissions(&program, Permissions::from_mode(0o4755)).expect("permissions");
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
    let output = command
        .arg(&program)
        .args(["dump", "-r"])
        .arg(&path)
        .output();
    let output = output.expect("it runs");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("set-user-ID"), "{text}");
}

/// Checks that only a helper process, which reads no packet, keeps privileges to look at chains and revert changes.
fn keeper() {
    const NET_ADMIN: &str = "0000000000001000";
    let pair = VethPair::new();
    let device = format!("tcx:{}", pair.right.device);
    let mut command = pair.right.namespace.command(RINGTAP);
    command.args(["dump", "--watch-chain", "--explain-capture"]);
    command.args(["-w", "/dev/null", "-i", &device]);
    let mut running = Running::start_piped(&mut command).expect("ringtap starts");
    wait_until_bare(&mut running, unprivileged().uid);
    let keepers = || -> Vec<u32> {
        let children = children(running.id()).into_iter();
        children
            .filter(|&id| field(&status(id), "Name") == "ringtap-undo")
            .collect()
    };
    let deadline = Instant::now() + LIMIT;
    // The helper takes its name after it was made.
    while keepers().is_empty() {
        assert!(Instant::now() < deadline, "no helper");
        std::thread::sleep(Duration::from_millis(5));
    }
    let [keeper] = keepers()[..] else {
        panic!("{:?}", keepers());
    };
    let has_given_up = || {
        let status = status(keeper);
        ["CapPrm", "CapEff", "CapBnd"]
            .iter()
            .all(|set| field(&status, set) == NET_ADMIN)
    };
    let deadline = Instant::now() + LIMIT;
    while !has_given_up() {
        assert!(Instant::now() < deadline, "{}", status(keeper));
        std::thread::sleep(Duration::from_millis(5));
    }
    let told = format!("until the end: process {keeper} keeps CAP_NET_ADMIN");
    running.wait_until_told(&told, LIMIT).expect("explained");
    // The next program is put first.
    let mut stat = pair.right.namespace.command(RINGTAP);
    stat.args(["stat", "-i", &device, "udp"]);
    let stat = Running::start_piped(&mut stat).expect("ringtap starts");
    running
        .wait_until_told("run before the capture", LIMIT)
        .expect("it is told");
    interrupted(stat);
    running.signal("KILL").expect("a signal");
    running.wait(LIMIT).expect("it ends");
    while Path::new(&format!("/proc/{keeper}/cwd")).exists() {
        assert!(Instant::now() < deadline, "it stays");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns the processes that a process has started, by `/proc`.
fn children(id: u32) -> Vec<u32> {
    let list = fs::read_to_string(format!("/proc/{id}/task/{id}/children")).expect("Linux tells");
    list.split_whitespace()
        .map(|id| id.parse().expect("a number"))
        .collect()
}

fn fifo_without_reader() {
    let (folder, path) = Traffic::file_of(10);
    let fifo = folder.path().join("fifo");
    make_fifo(&fifo);
    let mut command = Command::new(RINGTAP);
    command.args(["dump", "-r"]).arg(&path).arg("-w").arg(&fifo);
    let mut running = Running::start_piped(&mut command).expect("ringtap starts");
    let deadline = Instant::now() + LIMIT;
    let helpers = loop {
        let helpers = children(running.id());
        if !helpers.is_empty() {
            break helpers;
        }
        assert!(
            Instant::now() < deadline && !running.has_ended(),
            "no helper"
        );
    };
    running.signal("KILL").expect("a signal");
    running.wait(LIMIT).expect("it ends");
    // The helper has root's rights: it is not to stay.
    while helpers
        .iter()
        .any(|id| Path::new(&format!("/proc/{id}/cwd")).exists())
    {
        assert!(Instant::now() < deadline, "{helpers:?} stay");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn planted_fifo() {
    let (folder, path) = Traffic::file_of(10);
    let shared = folder.path().join("shared");
    fs::create_dir(&shared).expect("a folder");
    fs::set_permissions(&shared, Permissions::from_mode(0o1777)).expect("permissions");
    let fifo = shared.join("fifo");
    make_fifo(&fifo);
    std::os::unix::fs::chown(&fifo, Some(65_534), None).expect("another owner");
    let mut command = Command::new(RINGTAP);
    command.args(["dump", "-r"]).arg(&path).arg("-w").arg(&fifo);
    let running = Running::start_piped(&mut command).expect("ringtap starts");
    let output = running.wait(LIMIT).expect("it waits for nobody");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("another user"), "{text}");
}
