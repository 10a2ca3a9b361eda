//! `ringtap top`, in a terminal of tmux.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringtap_testkit::netns::{Side, VethPair};
use ringtap_testkit::process::Running;
use ringtap_testkit::traffic::{Rate, Replay, Traffic};

use super::hostile as names;
use super::processes::{DATAGRAMS, exchange};
use super::{LIMIT, RINGTAP};

/// A terminal of its own.
struct Terminal {
    socket: String,
}

impl Terminal {
    /// Opens a terminal with a shell in a namespace.
    fn open(side: &Side, (width, height): (u16, u16), name: &str) -> Self {
        let socket = format!("ringtap-{}-{name}", std::process::id());
        let terminal = Self { socket };
        let mut command = side.namespace.command("tmux");
        let size = [width.to_string(), height.to_string()];
        command
            .args([
                "-L",
                &terminal.socket,
                "-f",
                "/dev/null",
                "new-session",
                "-d",
            ])
            .args([
                "-x",
                &size[0],
                "-y",
                &size[1],
                "env",
                "PS1=$ ",
                "TERM=xterm-256color",
            ])
            .args(["bash", "--norc", "--noprofile"]);
        let status = command.stdin(Stdio::null()).status().expect("tmux runs");
        assert!(status.success());
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        command.args(["-L", &self.socket]).args(arguments);
        let output = command.stdin(Stdio::null()).output().expect("tmux runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    fn screen(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Waits until the screen has a text.
    fn wait(&self, text: &str) -> String {
        self.wait_for(text, |screen| screen.contains(text))
    }

    fn wait_for(&self, what: &str, condition: impl Fn(&str) -> bool) -> String {
        let deadline = Instant::now() + LIMIT;
        loop {
            let screen = self.screen();
            if condition(&screen) {
                return screen;
            }
            assert!(Instant::now() < deadline, "no {what:?} in:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns the process that the shell has started.
    fn child(&self) -> String {
        let shell = self.tmux(&["display", "-p", "#{pane_pid}"]);
        let shell = shell.trim();
        let children = fs::read_to_string(format!("/proc/{shell}/task/{shell}/children"));
        let children = children.expect("children of the shell");
        children.split(' ').next().expect("a child").to_owned()
    }

    /// Starts `ringtap top` on a device.
    fn top(&self, side: &Side, more: &str) {
        let line = format!("{RINGTAP} top -i {} {more}", side.device);
        self.keys(&[&line, "Enter"]);
        self.wait("1 Hosts");
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn send(side: &Side, packets: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("traffic.pcap");
    let traffic = Traffic {
        packets,
        interval: 100_000,
        ..Traffic::default()
    };
    traffic.write_file(&file).expect("a file");
    assert_eq!(Replay::new(&file, Rate::Pps(10_000)).run(side), packets);
}

pub(crate) fn keys() {
    let pair = VethPair::new();
    let terminal = Terminal::open(&pair.right, (80, 24), "keys");
    terminal.top(&pair.right, "");
    send(&pair.left, 10_000);
    let screen = terminal.wait("10.0k packets ");
    assert!(screen.contains("192.0.2."), "{screen}");
    assert!(
        screen.lines().all(|line| line.chars().count() <= 80),
        "{screen}"
    );
    terminal.keys(&["2"]);
    terminal.wait("by bytes");
    let screen = terminal.wait(" > ");
    assert!(screen.contains("udp"), "{screen}");
    terminal.keys(&["/"]);
    terminal.keys(&["-l", "tcp porrt"]);
    terminal.keys(&["Enter"]);
    terminal.wait("unexpected");
    for _ in 0..3 {
        terminal.keys(&["BSpace"]);
    }
    terminal.keys(&["-l", "rt 443"]);
    terminal.keys(&["Enter"]);
    terminal.wait("filter: tcp port 443");
    let screen = terminal.wait_for("https alone", |screen| {
        !screen.lines().any(|line| line.starts_with("udp"))
    });
    assert!(screen.contains(":443"), "{screen}");
    terminal.keys(&["s"]);
    terminal.wait("by packets");
    terminal.keys(&["Enter"]);
    terminal.wait("retransmissions");
    terminal.keys(&["Escape"]);
    terminal.keys(&["3"]);
    terminal.wait("of listed flows");
    terminal.keys(&["p"]);
    terminal.wait("PAUSED");
    terminal.keys(&["4"]);
    terminal.wait("interface");
    terminal.keys(&["?"]);
    terminal.wait("turn flows around");
    terminal.keys(&["q"]);
    terminal.tmux(&["resize-window", "-x", "100", "-y", "30"]);
    terminal.wait("Alerts");
    terminal.keys(&["q"]);
    let screen = terminal.wait("10000 packets");
    assert!(!screen.contains("1 Hosts"), "{screen}");
}

/// The list of processes, and the processes of a flow.
pub(crate) fn processes() {
    let pair = VethPair::new();
    let terminal = Terminal::open(&pair.left, (100, 50), "processes");
    terminal.top(&pair.left, "--who udp port 7000");
    exchange(&pair);
    let name = fs::read_to_string("/proc/self/comm").expect("a name");
    let process = format!("{}:{}", name.trim_end(), std::process::id());
    terminal.keys(&["5"]);
    let screen = terminal.wait(&process);
    assert!(screen.contains("5 Processes"), "{screen}");
    let sent = format!("{:.2}kB", f64::from(DATAGRAMS) * (28.0 + 8.0) / 1000.0);
    let row = terminal.wait_for("all bytes that the process sent", |screen| {
        let row = screen.lines().find(|line| line.starts_with(&process));
        row.is_some_and(|row| row.contains(&sent))
    });
    assert!(row.contains("received"), "{row}");
    terminal.keys(&["2"]);
    terminal.wait(":7000");
    terminal.keys(&["Enter"]);
    terminal.wait(&std::process::id().to_string());
    terminal.keys(&["q"]);
    terminal.keys(&["q"]);
    terminal.wait(&format!("{} packets", 2 * DATAGRAMS));
}

pub(crate) fn large() {
    let pair = VethPair::new();
    let terminal = Terminal::open(&pair.right, (200, 50), "large");
    terminal.keys(&["export NO_COLOR=1", "Enter"]);
    terminal.top(&pair.right, "");
    send(&pair.left, 10_000);
    let screen = terminal.wait("10.0k packets ");
    assert!(
        screen.lines().any(|line| line.chars().count() > 120),
        "{screen}"
    );
    assert!(
        screen.lines().all(|line| line.chars().count() <= 200),
        "{screen}"
    );
    let coloured = terminal.tmux(&["capture-pane", "-p", "-e"]);
    assert!(!coloured.contains("\u{1b}[36m"), "NO_COLOR");
    terminal.keys(&["q"]);
    terminal.wait("10000 packets");
}

pub(crate) fn write() {
    let pair = VethPair::new();
    let folder = tempfile::tempdir().expect("a folder");
    let terminal = Terminal::open(&pair.right, (120, 30), "write");
    terminal.top(
        &pair.right,
        &format!("--write-dir {}", folder.path().display()),
    );
    send(&pair.left, 2000);
    terminal.wait("2.00k packets ");
    terminal.keys(&["w"]);
    terminal.wait("writing packets to");
    send(&pair.left, 2000);
    terminal.wait("4.00k packets ");
    terminal.keys(&["w"]);
    terminal.keys(&["q"]);
    terminal.wait("4000 packets");
    let files: Vec<_> = fs::read_dir(folder.path())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    assert_eq!(files.len(), 1, "{files:?}");
    let name = files[0]
        .file_name()
        .expect("a name")
        .to_string_lossy()
        .into_owned();
    let host = name
        .strip_prefix("ringtap-")
        .and_then(|rest| rest.rsplit_once('-'));
    let host = host.expect("a host").0.to_owned();
    let count = |filter: &str| {
        let mut command = Command::new(RINGTAP);
        command
            .args(["dump", "--count", "-r"])
            .arg(&files[0])
            .arg(filter);
        let output = command.stdin(Stdio::null()).output().expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        text.split(' ')
            .next()
            .and_then(|count| count.parse::<u64>().ok())
            .expect("a count")
    };
    let all = count("");
    assert!(all > 0);
    assert_eq!(count(&format!("host {host}")), all);
}

/// The terminal is as it was after the key, after signals and after a panic.
pub(crate) fn put_back() {
    let pair = VethPair::new();
    let terminal = Terminal::open(&pair.right, (100, 24), "back");
    let state = |round: usize| {
        terminal.keys(&["clear", "Enter"]);
        terminal.keys(&[&format!("stty -a | cksum; echo round-{round}"), "Enter"]);
        let screen = terminal.wait_for("the state", |screen| {
            screen
                .lines()
                .any(|line| line.starts_with(&format!("round-{round}")))
        });
        // The shell's next prompt may be there or not.
        let is_sum = |line: &&str| line.starts_with(|letter: char| letter.is_ascii_digit());
        screen.lines().find(is_sum).expect("a sum").to_owned()
    };
    let before = state(0);
    for (round, ending) in ["key", "TERM", "INT"].into_iter().enumerate() {
        terminal.top(&pair.right, "");
        match ending {
            "key" => terminal.keys(&["q"]),
            signal => {
                let kill = format!("kill -{signal} {}", terminal.child());
                let killed = Command::new("sh").args(["-c", &kill]).status();
                assert!(killed.is_ok_and(|status| status.success()));
            }
        }
        terminal.wait_for("the end", |screen| {
            screen.lines().any(|line| line == "0 flows")
        });
        assert_eq!(state(round + 1), before, "after {ending}");
        assert_eq!(
            terminal
                .tmux(&["display", "-p", "#{alternate_on} #{cursor_flag}"])
                .trim(),
            "0 1"
        );
    }
}

/// A terminal that takes nothing, and the signals that come: raw mode is off afterwards. Prints the exit status as
/// Python has it, negative for a signal, and whether lines are edited and echoed.
const STUCK: &str = r#"
import fcntl, os, pty, signal, struct, sys, termios, time
count = int(sys.argv[1])
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    os.execvp(sys.argv[2], sys.argv[2:])
seen = b""
while b"Hosts" not in seen:
    seen += os.read(terminal, 65536)
def blocked():
    # Whether a thread of the program waits in the terminal's write.
    for task in os.listdir(f"/proc/{child}/task"):
        name = open(f"/proc/{child}/task/{task}/comm").read().strip()
        call = open(f"/proc/{child}/task/{task}/syscall").read().split()
        # write(2) of x86-64 and AArch64, to the standard output.
        if name == "view" and call[0] in ("1", "64") and call[1] == "0x1":
            return True
    return False
while not blocked():
    os.write(terminal, b"?")
    time.sleep(0.01)
for number in range(count):
    os.kill(child, signal.SIGTERM)
    time.sleep(0.7)
_, status = os.waitpid(child, 0)
flags = termios.tcgetattr(terminal)[3]
print(os.waitstatus_to_exitcode(status), bool(flags & termios.ICANON), bool(flags & termios.ECHO))
"#;

/// One signal, or two, end it also where the terminal is stuck, and raw mode is off.
pub(crate) fn stuck() {
    let pair = VethPair::new();
    for (count, expected) in [("1", "0 True True"), ("2", "-15 True True")] {
        let mut command = pair.right.namespace.command("python3");
        command.args(["-c", STUCK, count, RINGTAP, "top", "-i", &pair.right.device]);
        let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
        let running = Running::start(command.stderr(Stdio::piped())).expect("it starts");
        let output = running.wait(LIMIT).expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let found = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(found.trim(), expected, "{count} signals: {said}");
    }
}

/// Names from packets reach the terminal without escapes: its title and screen stay as they are.
pub(crate) fn hostile() {
    let pair = VethPair::new();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hostile.pcap");
    let flows = names::write(&file);
    let terminal = Terminal::open(&pair.right, (200, 40), "hostile");
    let sent = folder.path().join("sent");
    let title = || terminal.tmux(&["display", "-p", "#{pane_title}"]);
    let before = title();
    terminal.tmux(&["pipe-pane", &format!("cat > {}", sent.display())]);
    terminal.keys(&[&format!("{RINGTAP} top -r {}", file.display()), "Enter"]);
    terminal.wait("1 Hosts");
    terminal.keys(&["2"]);
    for name in names::shown() {
        // The column cuts the begin of a long name.
        let cut = name.chars().count().saturating_sub(30);
        terminal.wait(&name.chars().skip(cut).collect::<String>());
    }
    terminal.keys(&["Enter"]);
    terminal.wait("duration");
    terminal.keys(&["Escape"]);
    terminal.keys(&["1"]);
    terminal.wait("host");
    terminal.keys(&["q"]);
    terminal.wait(&format!("{flows} flows"));
    assert_eq!(title(), before);
    let sent = fs::read(&sent).expect("what was sent to the terminal");
    let has = |bytes: &[u8]| sent.windows(bytes.len()).any(|window| window == bytes);
    assert!(has(b"onerror"), "names are shown");
    for escape in [
        &b"\x1b]0;owned"[..],
        b"\x1b[6n",
        b"\xc2\x9b",
        "\u{202e}".as_bytes(),
    ] {
        assert!(!has(escape), "{escape:?} reached the terminal");
    }
}

/// The run ends with its terminal.
pub(crate) fn lost() {
    let pair = VethPair::new();
    let terminal = Terminal::open(&pair.right, (80, 24), "lost");
    terminal.top(&pair.right, "");
    let child = terminal.child();
    terminal.tmux(&["kill-server"]);
    let deadline = Instant::now() + LIMIT;
    while fs::metadata(format!("/proc/{child}")).is_ok() {
        let state = fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
        // A process that has ended may wait for its new parent.
        if state.contains(") Z ") {
            break;
        }
        assert!(Instant::now() < deadline, "it still runs: {state}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

pub(crate) fn none() {
    let output = Command::new(RINGTAP)
        .args(["top", "-i", "lo"])
        .stdin(Stdio::null())
        .output()
        .expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("must be a terminal"), "{said}");
}
