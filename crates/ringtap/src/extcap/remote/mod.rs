//! Capture on another machine over ssh: the system's `ssh` runs ringtap there, whose packets go to Wireshark's pipe.
//!
//! The arguments have the names of those of Wireshark's sshdump where they mean the same. All are values before ssh
//! is started: none can be taken for an option, and no shell reads one unquoted.

mod script;
mod session;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use ringtap_filter::CompileError;
use ringtap_filter::process::Asked;

use crate::exit::{Ends, USAGE};
use script::Program;
pub(super) use session::capture;

/// The program on the other machine.
const PROGRAM: &str = "ringtap";
/// Options of every ssh: it asks nothing, is silent apart from errors, and has no other purpose than this command.
const OPTIONS: [&str; 5] = [
    "BatchMode=yes",
    "LogLevel=ERROR",
    "ClearAllForwardings=yes",
    // A connection that others share would outlive the capture.
    "ControlMaster=no",
    "RemoteCommand=none",
];

/// The options that Wireshark shows for a capture over ssh.
#[derive(Debug, clap::Args)]
pub(super) struct RemoteArgs {
    /// Host to capture on, as ssh takes it
    #[arg(long = "remote-host", value_name = "HOST")]
    host: Option<String>,
    /// Port of its ssh server
    #[arg(long = "remote-port", value_name = "PORT")]
    port: Option<String>,
    /// User there
    #[arg(long = "remote-username", value_name = "USER")]
    user: Option<String>,
    /// File with the private key
    #[arg(long = "sshkey", value_name = "FILE")]
    key: Option<String>,
    /// Command that connects to the server, as ProxyCommand of ssh_config(5)
    #[arg(long = "proxycommand", value_name = "COMMAND")]
    proxy: Option<String>,
    /// Interface to capture on there, as in ringtap dump -i
    #[arg(long = "remote-interface", value_name = "DEV")]
    device: Option<String>,
    /// Run ringtap there with sudo, without a password
    #[arg(long = "remote-sudo", num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    sudo: Option<bool>,
    /// Name or path of ringtap there
    #[arg(long = "remote-program", value_name = "PROGRAM")]
    program: Option<String>,
    /// If there is no ringtap there, copy this one for the time of the capture
    #[arg(long = "remote-copy", num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    copy: Option<bool>,
}

/// The unsuccessful end of a capture over ssh.
#[derive(Debug, thiserror::Error)]
pub(super) enum RemoteError {
    #[error("specify the host to capture on (--remote-host)")]
    NoHost,
    #[error("{option} {value:?}: expected {expected}")]
    Value {
        option: &'static str,
        value: String,
        expected: &'static str,
    },
    #[error("invalid capture filter: {0}")]
    Filter(CompileError),
    #[error("{}: {source}", path.display())]
    Fifo { path: PathBuf, r#source: io::Error },
    #[error("cannot run {program}: {source}")]
    Run {
        program: &'static str,
        r#source: io::Error,
    },
    #[error("cannot read this program to copy it: {0}")]
    Own(io::Error),
    #[error(
        "{host}: {program} not found; install it there, name its path (--remote-program), or allow a copy for the time \
         of the capture (--remote-copy)"
    )]
    Missing { host: String, program: String },
    #[error("{host}: cannot copy ringtap: it is for {own} machines, and this one is {other}")]
    Machine {
        host: String,
        own: String,
        other: String,
    },
    #[error(
        "{host}: {text:?} is not a capture; if a file such as .bashrc prints it at each login, make that silent for \
         logins without a terminal"
    )]
    NoCapture { host: String, text: String },
    #[error("{host}: {reason}")]
    Failed { host: String, reason: String },
}

impl Ends for RemoteError {
    fn exit_status(&self) -> u8 {
        match self {
            Self::NoHost | Self::Value { .. } | Self::Filter(_) => USAGE,
            _ => 1,
        }
    }
}

/// A host, how to reach it, and how ringtap is run there.
#[derive(Debug)]
pub(super) struct Target {
    host: String,
    port: Option<u16>,
    user: Option<String>,
    key: Option<String>,
    proxy: Option<String>,
    interface: Option<String>,
    has_sudo: bool,
    program: String,
    /// Whether ringtap may be copied to the host.
    is_copied: bool,
}

impl Target {
    /// Checks the arguments.
    ///
    /// # Errors
    /// The host is missing, or a value could be taken for something else.
    pub(super) fn new(args: &RemoteArgs) -> Result<Self, RemoteError> {
        let given = |value: &Option<String>| value.clone().filter(|value| !value.is_empty());
        let host = given(&args.host).ok_or(RemoteError::NoHost)?;
        let wrong = |option, value: &str, expected| RemoteError::Value {
            option,
            value: value.to_owned(),
            expected,
        };
        if !is_plain(&host, ".-_:%@[]") {
            return Err(wrong(
                "--remote-host",
                &host,
                "a host name, an address, or a name in ssh_config(5)",
            ));
        }
        let user = given(&args.user);
        if let Some(user) = user.as_ref().filter(|user| !is_plain(user, ".-_@+")) {
            return Err(wrong(
                "--remote-username",
                user,
                "letters, digits and . - _ @ +",
            ));
        }
        let port = given(&args.port);
        let port = port.map(|text| {
            let port = text.parse().ok().filter(|port| *port > 0);
            port.ok_or_else(|| wrong("--remote-port", &text, "a port from 1 to 65535"))
        });
        let program = given(&args.program).unwrap_or_else(|| PROGRAM.to_owned());
        if program.starts_with('-') || program.contains(char::is_control) {
            return Err(wrong(
                "--remote-program",
                &program,
                "the name or path of a program",
            ));
        }
        Ok(Self {
            host,
            port: port.transpose()?,
            user,
            key: given(&args.key),
            proxy: given(&args.proxy),
            interface: given(&args.device),
            has_sudo: args.sudo == Some(true),
            program,
            is_copied: args.copy == Some(true),
        })
    }

    /// Returns the device there in the form of `-i`. `None`: the first one that is up.
    pub(super) fn interface(&self) -> Option<&str> {
        self.interface.as_deref()
    }

    /// Returns the command that runs a program of the shell there.
    fn ssh(&self, remote: &str) -> Command {
        let mut command = Command::new("ssh");
        command.args(["-T", "-x", "-a"]);
        for option in OPTIONS {
            command.args(["-o", option]);
        }
        if let Some(proxy) = &self.proxy {
            command.arg("-o").arg(format!("ProxyCommand={proxy}"));
        }
        if let Some(key) = &self.key {
            command.arg("-i").arg(Path::new(key));
        }
        if let Some(port) = self.port {
            command.arg("-p").arg(port.to_string());
        }
        if let Some(user) = &self.user {
            command.arg("-l").arg(user);
        }
        command.args(["--", &self.host, remote]);
        command
    }

    /// Returns the program of the shell that captures with ringtap's words.
    fn script(&self, words: &Words, program: Program<'_>) -> String {
        script::text(
            program,
            self.has_sudo,
            &words.options,
            words.filter.as_deref(),
        )
    }
}

/// Returns whether a name consists of letters, digits and these characters, and does not begin like an option.
fn is_plain(name: &str, others: &str) -> bool {
    !name.starts_with('-')
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || others.contains(c))
}

/// The words of ringtap's command line there.
#[derive(Debug)]
pub(super) struct Words {
    options: Vec<String>,
    filter: Option<String>,
}

impl Words {
    /// Checks the filter, as far as that is possible without the link type.
    ///
    /// # Errors
    /// The filter is invalid.
    pub(super) fn new(
        options: &[OsString],
        filter: Option<&str>,
        extensions: bool,
    ) -> Result<Self, RemoteError> {
        let filter = filter.filter(|filter| !filter.trim().is_empty());
        if let Some(filter) = filter {
            Asked::of(filter, extensions).map_err(RemoteError::Filter)?;
        }
        let options = options.iter();
        Ok(Self {
            options: options
                .map(|word| word.to_string_lossy().into_owned())
                .collect(),
            filter: filter.map(str::to_owned),
        })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct Line {
        #[command(flatten)]
        remote: RemoteArgs,
    }

    fn target(words: &[&str]) -> Result<Target, RemoteError> {
        let line = Line::try_parse_from(["x"].iter().chain(words)).unwrap();
        Target::new(&line.remote)
    }

    #[test]
    fn ssh_gets_the_host_behind_all_options() {
        let target = target(&[
            "--remote-host=server",
            "--remote-port=2222",
            "--remote-username=",
            "--sshkey=/a b/key",
            "--remote-sudo",
        ]);
        let target = target.unwrap();
        assert!(target.has_sudo && !target.is_copied);
        let command = target.ssh("exec true");
        let words: Vec<_> = command.get_args().collect();
        let end = ["-i", "/a b/key", "-p", "2222", "--", "server", "exec true"];
        assert_eq!(words[words.len() - end.len()..], end);
    }

    #[test]
    fn values_that_could_mean_something_else_are_refused() {
        for words in [
            &[][..],
            &["--remote-host="],
            &["--remote-host=-oProxyCommand=touch x"],
            &["--remote-host=$(touch x)"],
            &["--remote-host=a b"],
            &["--remote-host=a", "--remote-username=-x"],
            &["--remote-host=a", "--remote-username=a;touch x"],
            &["--remote-host=a", "--remote-port=0"],
            &["--remote-host=a", "--remote-port=22 -v"],
            &["--remote-host=a", "--remote-program=-x"],
        ] {
            let error = target(words).expect_err("refused");
            assert_eq!(error.exit_status(), USAGE, "{words:?}");
        }
    }
}
