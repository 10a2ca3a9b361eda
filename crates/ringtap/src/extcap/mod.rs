//! `ringtap-extcap`, which Wireshark and tshark run: they list ringtap's interfaces by engine, and capture on them.
//!
//! It is a second name of the program. Wireshark asks for interfaces, link types and options, which are printed
//! in its form (`doc/extcap.4`), and whether a filter is valid; then it has packets written into a pipe. That is
//! `ringtap dump`, whose command line is put together here. It runs in this process, or on another machine over ssh
//! ([`remote`]).

mod answers;
mod interface;
mod remote;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use ringtap_capture::{Direction, Filter, LinkType, Mode, devices};
use ringtap_filter::process::Asked;

use crate::cli::{Cli, Command, DIRECTIONS, MODES};
use crate::exit::{self, USAGE};
use crate::filter::describe;
use crate::notice::{failure, notice, only_failures};
use crate::toolbar::Toolbar;
use crate::{dump, values};
use interface::{Interface, Local};
use remote::{RemoteArgs, RemoteError, Target, Words};

/// The name by which Wireshark runs the program.
const NAME: &str = "ringtap-extcap";

/// Show ringtap's interfaces in Wireshark; Wireshark and tshark run this program themselves
#[derive(Debug, Parser)]
#[command(name = NAME, version, max_term_width = 100)]
pub(crate) struct Extcap {
    /// List the interfaces
    #[arg(long = "extcap-interfaces")]
    interfaces: bool,
    /// Version of Wireshark
    #[arg(long = "extcap-version", value_name = "VERSION")]
    _version: Option<String>,
    /// Interface that is asked for or captured on
    #[arg(long = "extcap-interface", value_name = "NAME")]
    interface: Option<Interface>,
    /// List the link types of the interface
    #[arg(long = "extcap-dlts", requires = "interface")]
    link_types: bool,
    /// List the options of the interface
    #[arg(long = "extcap-config", requires = "interface")]
    config: bool,
    /// Option whose values are asked for again
    #[arg(long = "extcap-reload-option", value_name = "OPTION")]
    _reload: Option<String>,
    /// Capture on the interface
    #[arg(long, requires_all = ["interface", "fifo"])]
    capture: bool,
    /// Pipe that packets are written to
    #[arg(long, value_name = "FILE")]
    fifo: Option<PathBuf>,
    /// Filter of the capture, as in pcap-filter(7); without --capture, report whether it is valid
    #[arg(long = "extcap-capture-filter", value_name = "FILTER")]
    filter: Option<String>,
    /// Pipe from the toolbar
    #[arg(long = "extcap-control-in", value_name = "FILE")]
    control_in: Option<PathBuf>,
    /// Pipe to the toolbar
    #[arg(long = "extcap-control-out", value_name = "FILE")]
    control_out: Option<PathBuf>,
    #[command(flatten)]
    options: CaptureOptions,
    #[command(flatten)]
    remote: RemoteArgs,
}

/// The options that Wireshark shows for an interface.
#[derive(Debug, clap::Args)]
struct CaptureOptions {
    /// Whether the host's stack also sees the packets (copy) or not (steal)
    #[arg(long, value_name = "MODE", value_parser = values::one_of(MODES))]
    mode: Option<Mode>,
    /// Direction of the packets: received (in), sent (out), or both
    #[arg(long, value_name = "DIRECTION", value_parser = values::one_of(DIRECTIONS))]
    direction: Option<Direction>,
    /// Capture at most this many bytes of each packet
    #[arg(long, value_name = "SNAPLEN", value_parser = values::snaplen)]
    snaplen: Option<u32>,
    /// Size of the ring, such as 512K, 64M or 1G
    #[arg(long, value_name = "SIZE")]
    buffer: Option<values::Size>,
    /// Keep one packet in N
    #[arg(long, value_name = "N", value_parser = values::sample)]
    sample: Option<values::Sample>,
    /// Don't put the interface into promiscuous mode
    #[arg(long = "no-promiscuous-mode", num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    no_promiscuous: Option<bool>,
    /// Also accept extensions of the filter language
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    extended: Option<bool>,
    /// Name the process of each packet of this host's sockets
    #[arg(long, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    who: Option<bool>,
}

/// Returns whether the program was started by the name for Wireshark.
pub(crate) fn is_meant(words: &[OsString]) -> bool {
    let name = words.first().map(Path::new).and_then(Path::file_name);
    name == Some(OsStr::new(NAME))
}

/// Runs the program by that name.
pub(crate) fn run(words: &[OsString]) -> ExitCode {
    let asked = Extcap::try_parse_from(words)
        .unwrap_or_else(|error| std::process::exit(crate::print(&error)));
    if asked.interfaces {
        return match devices::list() {
            Ok(devices) => answer(&answers::interfaces(&devices)),
            Err(error) => fail(error),
        };
    }
    let Some(interface) = &asked.interface else {
        notice(format_args!(
            "{NAME} is run by Wireshark and tshark; see tshark -D"
        ));
        return ExitCode::from(USAGE);
    };
    if asked.link_types {
        return match interface.local().map(Local::link_type) {
            None => answer(&answers::remote_link_type()),
            Some(Ok(link_type)) => answer(&answers::link_type(link_type)),
            Some(Err(error)) => fail(error),
        };
    }
    if asked.config {
        return answer(&answers::options(interface));
    }
    if asked.capture {
        return match interface {
            Interface::Local(local) => capture(words, &asked, local),
            Interface::Remote => exit::code(capture_remotely(words, &asked)),
        };
    }
    match asked
        .filter
        .as_deref()
        .map(|filter| refused(filter, interface, &asked.options))
    {
        // Wireshark takes what is printed as the error.
        Some(Some(reason)) => answer(&format!("{reason}\n")),
        _ => ExitCode::SUCCESS,
    }
}

impl Extcap {
    /// Opens the toolbar, if there is one. Without it, the capture works.
    fn toolbar(&self) -> Option<Toolbar> {
        let output = self
            .control_out
            .as_deref()
            .filter(|path| !path.as_os_str().is_empty())?;
        let opened = Toolbar::open(self.control_in.as_deref(), output);
        opened
            .inspect_err(|error| notice(format_args!("no toolbar: {}: {error}", output.display())))
            .ok()
    }

    /// Opens the toolbar for a capture, and has its log take the messages that are no failures: Wireshark shows whatever
    /// is written to standard error in a window, as an error. tshark, which has no toolbar, prints it.
    fn toolbar_with_log(&self) -> Option<Toolbar> {
        let toolbar = self.toolbar()?;
        let log = toolbar.clone();
        only_failures(move |text| log.log(text));
        Some(toolbar)
    }
}

/// Captures in this process.
fn capture(words: &[OsString], asked: &Extcap, interface: &Local) -> ExitCode {
    let fifo = asked.fifo.clone().unwrap_or_default();
    let mut line = vec!["ringtap".into()];
    line.extend(dump_words(words, asked, fifo.as_os_str()));
    line.extend(["-i".into(), interface.device().into()]);
    if let Some(filter) = asked.filter.as_ref().filter(|filter| !filter.is_empty()) {
        line.extend(["--".into(), filter.into()]);
    }
    match Cli::try_parse_from(&line).map(|cli| cli.command) {
        Ok(Command::Dump(mut args)) => {
            args.capture.session.toolbar = asked.toolbar_with_log();
            dump::run(*args)
        }
        Ok(_) => ExitCode::from(USAGE),
        Err(error) => fail(error),
    }
}

/// Captures on another machine.
fn capture_remotely(words: &[OsString], asked: &Extcap) -> Result<(), RemoteError> {
    let target = Target::new(&asked.remote)?;
    let mut line = dump_words(words, asked, OsStr::new("-"));
    line.push("--until-eof".into());
    if let Some(interface) = target.interface() {
        line.push(format!("--interface={interface}").into());
    }
    let toolbar = asked.toolbar_with_log();
    if toolbar.is_some() {
        line.push("--json-stats".into());
    }
    let is_extended = asked.options.extended == Some(true);
    let words = Words::new(&line, asked.filter.as_deref(), is_extended)?;
    let fifo = asked.fifo.as_deref().unwrap_or(Path::new(""));
    remote::capture(&target, &words, fifo, toolbar.as_ref())
}

/// Returns the words of `ringtap dump` that write to this file, without the program, the interface and the filter.
fn dump_words(words: &[OsString], asked: &Extcap, file: &OsStr) -> Vec<OsString> {
    let mut line: Vec<OsString> = ["dump", "-U", "--format", "pcapng", "-w"]
        .map(OsString::from)
        .to_vec();
    line.push(file.to_owned());
    // Options have the same names there, and were parsed by the same definitions.
    let given = |name: &str| {
        let equal = format!("{name}=");
        let mut words = words
            .iter()
            .skip(1)
            .map(|word| word.to_string_lossy().into_owned());
        while let Some(word) = words.next() {
            if word == name {
                return words.next();
            }
            if let Some(value) = word.strip_prefix(&equal) {
                return Some(value.to_owned());
            }
        }
        None
    };
    let names = ["--mode", "--direction", "--snaplen", "--buffer", "--sample"];
    for name in names {
        if let Some(value) = given(name).filter(|value| !value.is_empty()) {
            let name = if name == "--snaplen" {
                "--snapshot-length"
            } else {
                name
            };
            line.push(format!("{name}={value}").into());
        }
    }
    for (is_set, name) in [
        (asked.options.no_promiscuous, "--no-promiscuous-mode"),
        (asked.options.extended, "--extended"),
        (asked.options.who, "--who"),
    ] {
        if is_set == Some(true) {
            line.push(name.into());
        }
    }
    line
}

/// Returns the reason why a filter is invalid on an interface. The link type of a remote one is unknown.
fn refused(filter: &str, interface: &Interface, options: &CaptureOptions) -> Option<String> {
    let is_extended = options.extended == Some(true);
    let Some(local) = interface.local() else {
        let error = Asked::of(filter, is_extended).err()?;
        return Some(error.render(filter));
    };
    let filter = Filter::new(filter)
        .with_extensions(is_extended)
        .with_processes(options.who == Some(true));
    let link_type = local.link_type().unwrap_or(LinkType::ETHERNET);
    let error = filter
        .compile(link_type, options.snaplen.unwrap_or(262_144))
        .err()?;
    Some(describe(&error))
}

fn answer(text: &str) -> ExitCode {
    use std::io::Write as _;
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn fail(error: impl std::fmt::Display) -> ExitCode {
    failure(error);
    ExitCode::FAILURE
}
