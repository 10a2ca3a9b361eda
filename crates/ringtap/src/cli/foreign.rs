//! Options of tcpdump that change nothing here, or that are not here: the former are accepted, the latter
//! rejected with what to do instead. Help does not list them.

use clap::Args;

#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line"
)]
pub(crate) struct ForeignArgs {
    /// AS numbers with a dot: none are printed
    #[arg(short = 'b', hide = true)]
    asdot: bool,
    /// Addresses of other networks as numbers: all are
    #[arg(short = 'f', hide = true)]
    foreign_numeric: bool,
    /// Host names without their domain: no names are printed
    #[arg(short = 'N', hide = true)]
    short_names: bool,
    /// NFS handles as they are: none are decoded
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
    /// The first option that is not here, and what to do instead.
    pub(crate) fn rejected(&self) -> Option<(&'static str, &'static str)> {
        let given = [
            (
                self.monitor,
                "-I",
                "put the interface into monitor mode before: iw dev DEV set monitor none",
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
                "IPsec is not decrypted; write the packets by -w and read them by tcpdump or Wireshark",
            ),
            (
                self.md5.is_some(),
                "-M",
                "TCP-MD5 signatures are not verified; write the packets by -w and read them by tcpdump",
            ),
            (
                self.mib.is_some(),
                "-m",
                "SNMP is not decoded by MIB modules; write the packets by -w and read them by tcpdump",
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

/// The option `--version` where `-V` is tcpdump's, a list of files.
#[derive(Debug, Args)]
pub(crate) struct VersionArg {
    /// Print version
    #[arg(long, action = clap::ArgAction::Version)]
    version: Option<bool>,
}
