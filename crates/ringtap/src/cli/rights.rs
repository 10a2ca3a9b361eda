//! The privileges of a run.

use clap::Args;

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RightsArgs {
    /// As root: become this user once sockets and programs are open, and create output files as that user;
    /// root stays root, without its capabilities. Without this option, root becomes the user ringtap, or
    /// nobody, and a helper process creates the files as root
    #[arg(
        short = 'Z',
        long = "relinquish-privileges",
        value_name = "USER",
        help_heading = "Privileges"
    )]
    pub(crate) user: Option<String>,
    /// Disable the limits on files and system calls (Landlock, seccomp) that apply while packets are handled
    #[arg(long, help_heading = "Privileges")]
    pub(crate) no_sandbox: bool,
}
