//! Completion in shells that run in a terminal of tmux, and are typed to.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::{LIMIT, RINGTAP};

/// A terminal with a shell.
struct Shell {
    socket: String,
}

impl Shell {
    fn open(name: &str, words: &[&str]) -> Self {
        let shell = Self {
            socket: format!("ringtap-{}-{name}", std::process::id()),
        };
        let mut command = Command::new("tmux");
        let folder = Path::new(RINGTAP).parent().expect("a folder");
        let path = format!(
            "PATH={}:{}",
            folder.display(),
            std::env::var("PATH").unwrap_or_default()
        );
        command.args([
            "-L",
            &shell.socket,
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "100",
            "-y",
            "40",
        ]);
        command
            .args(["env", "TERM=xterm", "PS1=> ", "LC_ALL=C.UTF-8", &path])
            .args(words);
        assert!(
            command
                .stdin(Stdio::null())
                .status()
                .expect("tmux runs")
                .success()
        );
        shell
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let mut command = Command::new("tmux");
        let output = command
            .args(["-L", &self.socket])
            .args(arguments)
            .stdin(Stdio::null())
            .output();
        String::from_utf8_lossy(&output.expect("tmux runs").stdout).into_owned()
    }

    /// Types keys, and waits until the screen fulfils a condition.
    fn keys(&self, keys: &[&str], what: &str, condition: impl Fn(&str) -> bool) {
        self.tmux(&[&["send-keys"], keys].concat());
        let deadline = Instant::now() + LIMIT;
        let mut screen = self.tmux(&["capture-pane", "-p"]);
        while !condition(&screen) {
            assert!(
                Instant::now() < deadline,
                "no {what:?} after {keys:?}:\n{screen}"
            );
            std::thread::sleep(std::time::Duration::from_millis(50));
            screen = self.tmux(&["capture-pane", "-p"]);
        }
    }

    /// Types a line and a tab, and waits for a text; then clears the line.
    fn completes(&self, line: &str, expected: &str) {
        self.keys(&[line, "Tab"], expected, |screen| screen.contains(expected));
        self.keys(
            &["C-e", "C-u", "clear", "Enter"],
            "an empty screen",
            |screen| !screen.contains(line),
        );
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

/// Lines that all shells complete, and what follows.
const LINES: [(&str, &str); 9] = [
    ("ringtap du", "ringtap dump"),
    ("ringtap dump --snapshot-l", "--snapshot-length"),
    // Interfaces of this machine, also behind an engine and behind an equals sign.
    ("ringtap dump -i l", "-i lo"),
    ("ringtap dump -i tcx:l", "-i tcx:lo"),
    ("ringtap stat --interface=l", "--interface=lo"),
    ("ringtap dump -i lo -j host_l", "host_lowprec"),
    ("ringtap filter -y LINUX_SLL", "LINUX_SLL2"),
    // Words of the filter language, and the names of processes that run.
    ("ringtap dump --who -i lo tcp and proc", "and process"),
    (
        "ringtap dump -i lo ip and process ringtap-na",
        "ringtap-nap",
    ),
];

fn all(shell: &Shell) {
    let folder = tempfile::tempdir().expect("a folder");
    let nap = folder.path().join("ringtap-nap");
    std::os::unix::fs::symlink("/bin/sleep", &nap).expect("a link");
    let mut nap = Command::new(nap).arg("1000").spawn().expect("it runs");
    for (line, expected) in LINES {
        shell.completes(line, expected);
    }
    nap.kill().and_then(|()| nap.wait()).expect("it ends");
}

pub(crate) fn bash() {
    let shell = Shell::open("bash", &["bash", "--norc", "--noprofile"]);
    let load =
        ". <(RINGTAP_COMPLETE=bash ringtap); bind 'set show-all-if-ambiguous on'; echo loa''ded";
    shell.keys(&[load, "Enter"], "loaded", |screen| {
        screen.contains("loaded")
    });
    all(&shell);
    // Several answers are listed.
    shell.keys(&["ringtap dump -i ", "Tab"], "engines", |screen| {
        ["any", "lo", "tcx:", "xdp:"]
            .iter()
            .all(|answer| screen.contains(answer))
    });
}

pub(crate) fn zsh() {
    let shell = Shell::open("zsh", &["zsh", "-f"]);
    let load = "autoload -U compinit && compinit -D -u; . <(RINGTAP_COMPLETE=zsh ringtap); bindkey -e; setopt list_ambiguous; echo loa''ded";
    shell.keys(&[load, "Enter"], "loaded", |screen| {
        screen.contains("\nloaded")
    });
    all(&shell);
    shell.keys(&["ringtap dump -i ", "Tab"], "engines", |screen| {
        ["any", "lo", "tcx:", "all interfaces"]
            .iter()
            .all(|answer| screen.contains(answer))
    });
}

pub(crate) fn fish() {
    let folder = tempfile::tempdir().expect("a folder");
    let home = format!("HOME={}", folder.path().display());
    let shell = Shell::open("fish", &[&home, "fish", "--no-config"]);
    let load = "RINGTAP_COMPLETE=fish ringtap | source; echo loa''ded";
    shell.keys(&[load, "Enter"], "loaded", |screen| {
        screen.contains("\nloaded")
    });
    all(&shell);
    shell.keys(&["ringtap dump -i ", "Tab"], "engines", |screen| {
        ["any", "lo", "tcx:"]
            .iter()
            .all(|answer| screen.contains(answer))
    });
}

pub(crate) fn scripts() {
    for (shell, expected) in [
        ("bash", "complete -o"),
        ("zsh", "#compdef ringtap"),
        ("fish", "complete --keep-order"),
    ] {
        let output = Command::new(RINGTAP)
            .env("RINGTAP_COMPLETE", shell)
            .output()
            .expect("ringtap runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            output.status.success() && text.contains(expected),
            "{shell}: {text}"
        );
    }
    let unknown = Command::new(RINGTAP)
        .env("RINGTAP_COMPLETE", "cmd")
        .output()
        .expect("ringtap runs");
    assert!(!unknown.status.success() && unknown.stdout.is_empty());
}
