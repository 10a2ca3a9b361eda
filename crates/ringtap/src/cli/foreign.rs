//! Options of tcpdump that have no effect here are accepted; unsupported options are rejected with an
//! alternative. Help does not list them.

use clap::Args;

#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct ForeignArgs {
    /// Print AS numbers with a dot (no effect: none are printed)
    #[arg(short = 'b', hide = true)]
    asdot: bool,
    /// Print addresses of other networks as numbers (no effect: all are)
    #[arg(short = 'f', hide = true)]
    foreign_numeric: bool,
    /// Print host names without their domain (no effect: no names are printed)
    #[arg(short = 'N', hide = true)]
    short_names: bool,
    /// Print NFS handles undecoded (no effect: none are decoded)
    #[arg(short = 'u', hide = true)]
    nfs_handles: bool,
    /// IEEE 802.11s headers
    #[arg(short = 'H', hide = true)]
    mesh: bool,
    #[arg(short = 'I', long = "monitor-mode", hide = true)]
    monitor: bool,
    #[arg(short = 'J', long = "list-time-stamp-types", hide = true)]
    list_stamps: bool,
    #[arg(short = 'E', value_name = "SECRET", hide = true)]
    ipsec: Option<String>,
    #[arg(short = 'M', value_name = "SECRET", hide = true)]
    md5: Option<String>,
    #[arg(short = 'm', value_name = "MODULE", hide = true)]
    mib: Option<String>,
    #[arg(short = 'T', value_name = "TYPE", hide = true)]
    protocol: Option<String>,
    #[arg(long = "skip", value_name = "COUNT", hide = true)]
    skip: Option<String>,
    #[arg(long = "lengths", hide = true)]
    lengths: bool,
    #[arg(long = "print-sampling", value_name = "NTH", hide = true)]
    print_sampling: Option<String>,
}

impl ForeignArgs {
    /// Returns the first unsupported option, and an alternative to it.
    pub(crate) fn rejected(&self) -> Option<(&'static str, &'static str)> {
        let given = [
            (
                self.monitor,
                "-I",
                "first put the interface into monitor mode: iw dev DEV set monitor none",
            ),
            (
                self.list_stamps,
                "-J",
                "\"ringtap devices DEV\" shows the clocks of an interface; -j takes host, host_lowprec, \
                 host_hiprec, adapter, adapter_unsynced or none",
            ),
            (
                self.ipsec.is_some(),
                "-E",
                "IPsec is not decrypted; write the packets with -w and read them with tcpdump or Wireshark",
            ),
            (
                self.md5.is_some(),
                "-M",
                "TCP-MD5 signatures are not verified; write the packets with -w and read them with tcpdump",
            ),
            (
                self.mib.is_some(),
                "-m",
                "SNMP is not decoded by MIB modules; write the packets with -w and read them with tcpdump",
            ),
            (
                self.protocol.is_some(),
                "-T",
                "not supported: ringtap finds the protocol by the ports; use -w, and read the file with tcpdump -T",
            ),
            (
                self.skip.is_some(),
                "--skip",
                "choose packets by time: --from and --to",
            ),
            (
                self.lengths,
                "--lengths",
                "-e prints the length of each packet",
            ),
            (
                self.print_sampling.is_some(),
                "--print-sampling",
                "--sample N keeps one packet in N",
            ),
        ];
        let mut given = given.into_iter().filter(|(is_given, ..)| *is_given);
        given.next().map(|(_, option, instead)| (option, instead))
    }
}

/// The option `--version`. Here `-V` is tcpdump's: a list of files.
#[derive(Debug, Args)]
pub(crate) struct VersionArg {
    /// Print version
    #[arg(long, action = clap::ArgAction::Version)]
    version: Option<bool>,
}
