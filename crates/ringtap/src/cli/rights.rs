//! What a run may do.

use clap::Args;

#[derive(Clone, Debug, Default, Args)]
pub(crate) struct RightsArgs {
    /// As root: become this user once sockets and programs are open, and make output files as that
    /// user; root stays root, without its capabilities. Without it root becomes the user ringtap, or
    /// nobody, and a helper process makes the files as root
    #[arg(
        short = 'Z',
        long = "relinquish-privileges",
        value_name = "USER",
        help_heading = "Privileges"
    )]
    pub(crate) user: Option<String>,
    /// Do without the limits on files and system calls (Landlock, seccomp) that hold while packets are
    /// handled
    #[arg(long, help_heading = "Privileges")]
    pub(crate) no_sandbox: bool,
}
