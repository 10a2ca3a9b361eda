//! The session that a capture belongs to: of ssh, or of Wireshark.

use clap::Args;

use crate::ssh::Session;
use crate::toolbar::Toolbar;

#[derive(Debug, Args)]
pub(crate) struct SessionArgs {
    /// Leave out the packets of one ssh connection: this session's (SSH_CONNECTION, here or in a parent process), or
    /// that of CONNECTION, which has the form of this variable: 'ADDRESS PORT ADDRESS PORT'
    #[arg(long, value_name = "CONNECTION", num_args = 0..=1, require_equals = true, default_missing_value = "this",
          conflicts_with_all = ["read", "file_list"])]
    pub(crate) exclude_ssh: Option<Session>,
    /// End the capture when standard input ends, such as when the ssh session that carries it ends; each line on it
    /// requests the counters so far
    #[arg(long, conflicts_with_all = ["read", "file_list"])]
    pub(crate) until_eof: bool,
    /// Wireshark's toolbar.
    #[arg(skip)]
    pub(crate) toolbar: Option<Toolbar>,
}
