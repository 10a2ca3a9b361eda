//! Options of `top` and `web`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use ringtap_flow::export::Enterprise;
use ringtap_flow_io::{ListenAddress, Network};

use super::{ConfigArg, FileArgs, FlowWho, NetnsArg, ProbeArgs, RightsArgs, SourceArgs, Tunnel};
use crate::values::{self, Size};

const SNAPLEN_HELP: &str = "Capture at most this many bytes of each packet; default 1600";

/// Options that both views have.
#[derive(Debug, Args)]
pub(crate) struct LookArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,
    /// Also accept extensions of the filter language: sets, packets in tunnels, IPv6 extension headers, processes
    #[arg(long)]
    pub(crate) extended: bool,
    /// The filter, as in pcap-filter(7)
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
    /// Replay files at their own pace, instead of reading them at once
    #[arg(long, requires = "read")]
    pub(crate) replay: bool,
    /// Flows under way at most; if there are more, the oldest end
    #[arg(long, value_name = "N", default_value = "262144", help_heading = "Metering",
          value_parser = values::whole::<u32>("flows", 1, Some(67_108_864)))]
    pub(crate) flows: u32,
    /// End a flow when no packet came for this time
    #[arg(long, value_name = "S", default_value = "30", help_heading = "Metering", value_parser = values::interval)]
    pub(crate) inactive: Duration,
    /// Meter the flows inside these tunnels instead of the tunnels: gre, vxlan, gtp-u, ipip, all
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        help_heading = "Metering"
    )]
    pub(crate) tunnels: Vec<Tunnel>,
    /// Find the processes at the ends of flows, of this host's sockets or as the file recorded them: all, or of pid,
    /// comm, uid and cgroup those that are listed
    #[arg(long, value_name = "FIELDS", num_args = 0..=1, require_equals = true, default_missing_value = "all",
          help_heading = "Metering")]
    pub(crate) who: Option<FlowWho>,
    /// Flows that are listed at most, under way or ended lately; about 500 bytes each
    #[arg(long, value_name = "N", default_value = "32768", help_heading = "Metering",
          value_parser = values::whole::<u32>("flows", 16, Some(1_048_576)))]
    pub(crate) listed: u32,
    /// Raise an alert when the rate is above this, in bits per second, such as 100M
    #[arg(long, value_name = "RATE", help_heading = "Alerts")]
    pub(crate) alert_rate: Option<Size>,
    /// Raise an alert when a host opens flows to more than N hosts and ports within a minute, most of
    /// which do not answer; 0: never
    #[arg(long, value_name = "N", default_value = "100", help_heading = "Alerts",
          value_parser = values::whole::<u32>("targets", 0, Some(10_000)))]
    pub(crate) alert_fan_out: u32,
    /// Database of autonomous systems or countries, in MaxMind's format; may be given several times
    #[arg(long, value_name = "FILE", help_heading = "Databases")]
    pub(crate) mmdb: Vec<PathBuf>,
    /// Vendors of MAC addresses: IEEE's oui.txt or oui.csv, or Wireshark's manuf
    #[arg(long, value_name = "FILE", help_heading = "Databases")]
    pub(crate) oui: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Capture")]
    pub(crate) capture: ProbeArgs,
    #[command(flatten)]
    pub(crate) netns: NetnsArg,
    #[command(flatten)]
    pub(crate) rights: RightsArgs,
}

#[derive(Debug, Args)]
#[command(mut_arg("snaplen", |arg| arg.help(SNAPLEN_HELP)))]
#[command(group = clap::ArgGroup::new("top_source").required(true).args(["interface", "read", "file_list"]).multiple(true))]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) look: LookArgs,
    /// Folder of the files that the key w writes
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) write_dir: PathBuf,
    #[command(flatten)]
    pub(crate) files: FileArgs,
}

#[derive(Debug, Args)]
#[command(mut_arg("snaplen", |arg| arg.help(SNAPLEN_HELP)))]
#[command(group = clap::ArgGroup::new("web_source").required(true).args(["interface", "read", "file_list", "collect"]).multiple(true))]
pub(crate) struct WebArgs {
    #[command(flatten)]
    pub(crate) look: LookArgs,
    #[command(flatten)]
    pub(crate) config: ConfigArg,
    /// Show the records of other exporters, NetFlow v5, v9, IPFIX or sFlow v5, that are sent to this address
    #[arg(long, value_name = "udp:HOST:PORT", conflicts_with_all = ["interface", "read", "file_list", "filter", "extended",
          "inactive", "flows", "tunnels", "who", "replay",
          "snaplen", "no_promiscuous", "buffer", "mode", "force", "direction", "cpu", "netns", "container",
          "explain_capture"])]
    pub(crate) collect: Option<ListenAddress>,
    /// With --collect: take datagrams of this address or network only, such as 192.0.2.0/24; may be given
    /// several times
    #[arg(long, value_name = "CIDR", requires = "collect")]
    pub(crate) allow: Vec<Network>,
    /// With --collect: the private enterprise number that flow --enterprise gave to the exporters' elements
    #[arg(long, value_name = "NUMBER", requires = "collect")]
    pub(crate) enterprise: Option<Enterprise>,
    #[command(flatten, next_help_heading = "Serving")]
    pub(crate) serving: ServingArgs,
    #[command(flatten, next_help_heading = "Recorder")]
    pub(crate) recorded: RecordedArgs,
    /// The counters as one JSON object on standard error at the end
    #[arg(long, help_heading = "Reports")]
    pub(crate) json_stats: bool,
    /// Report on standard error how the capture works: engine, clock, memory, filter, what it cannot see
    #[arg(long, help_heading = "Reports")]
    pub(crate) explain_capture: bool,
    /// Measure the time of the capture's programs in the kernel too. While it is on, each run of a program on this
    /// host reads the clock twice more
    #[arg(long, help_heading = "Reports", conflicts_with_all = ["read", "file_list", "collect"])]
    pub(crate) kernel_cost: bool,
}

/// How pages are served, and to whom.
#[derive(Debug, Args)]
pub(crate) struct ServingArgs {
    /// Address and port to serve on. Everywhere but on loopback, requests need a token or a client certificate
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:8877")]
    pub(crate) listen: SocketAddr,
    /// Require the token on loopback and from clients with certificates too
    #[arg(long)]
    pub(crate) token: bool,
    /// Serve with TLS: this certificate, in PEM, with those that lead to its authority
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// The certificate's private key, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Serve only clients with a certificate of one of these authorities, in PEM; they need no token
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_client_ca: Option<PathBuf>,
    /// Accept requests for this host name too; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) server_name: Vec<String>,
    /// Keep the history of 30 days and the token in this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

/// Options of a recorder that is served.
#[derive(Debug, Args)]
pub(crate) struct RecordedArgs {
    /// Serve the packets of the recorder in this folder too, and its metrics, and pass requests for copies to it
    #[arg(long, value_name = "DIR")]
    pub(crate) record: Option<PathBuf>,
    /// The most bytes that are read from the recorder's files, or sent, for one request
    #[arg(long, value_name = "SIZE", default_value = "4G", requires = "record")]
    pub(crate) record_limit: Size,
    /// Have the recorder copy the packets around each new alert, as `alert-KIND`
    #[arg(long, requires = "record")]
    pub(crate) record_alerts: bool,
}
