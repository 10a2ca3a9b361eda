//! Options about configuration files, and commands around the command line itself.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// The option of commands that take a configuration file.
#[derive(Debug, Args)]
pub(crate) struct ConfigArg {
    /// Take options from the table of this command in a TOML file, whose keys are the long options; options of
    /// the command line take the place of those in the file
    // `crate::config` reads it before the command line is parsed.
    #[arg(id = "config", long = "config", value_name = "FILE")]
    _config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    pub(crate) command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ConfigCommand {
    /// Report all invalid keys and values of configuration files, with file and line
    Check {
        /// Configuration files, in TOML
        #[arg(value_name = "FILE", required = true)]
        files: Vec<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ManualArgs {
    /// Folder for the pages; it is made if it does not exist
    #[arg(value_name = "FOLDER")]
    pub(crate) folder: PathBuf,
}
