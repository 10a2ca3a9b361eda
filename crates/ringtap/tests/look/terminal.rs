//! `ringtap top`, in a terminal of tmux.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ringtap_testkit::netns::{Side, VethPair};
use ringtap_testkit::traffic::{Rate, Replay, Traffic};

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
        let lines = screen.lines().filter(|line| !line.contains("round-"));
        lines.collect::<Vec<_>>().join("\n").trim().to_owned()
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
