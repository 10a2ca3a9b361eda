#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// The way of an expression: text → tokens → tree (`language`), tree → conditions over values of the packet (`lower`,
// with `link` for what depends on the link type and `resolve` for names), conditions → decision graph (`ir`), graph →
// instructions (`emit`), instructions → `Program`, which is valid or does not exist. Recursion is never deeper than
// `limits::NESTING`.

mod advice;
pub mod disasm;
#[cfg(any(test, fuzzing))]
pub mod each_pass;
pub mod ebpf;
mod emit;
mod error;
pub mod explain;
mod ir;
mod language;
mod link;
mod lower;
pub mod process;
pub mod program;
pub mod resolve;
pub mod search;
pub mod socket;

pub use error::{CompileError, ErrorKind, Hint};
pub use language::limits;
pub use program::{Ancillary, Insn, InvalidProgram, Program};
pub use resolve::{NameKind, ResolveError, Resolver, Tables, Transport};
pub use ringtap_packet::LinkType;

ringtap_packet::options! {
    /// The options for compiling an expression.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CompileOptions {
        /// The link-layer header that packets begin with.
        pub link_type: LinkType,
        /// The number of bytes to keep, which the program returns for an accepted packet. Default
        /// 262,144.
        pub snaplen: u32,
        /// The network's mask for `ip broadcast`, for example `0xffff_ff00`. Default: unknown.
        pub netmask: Option<u32>,
        /// Whether redundant tests are left out and values are kept in registers; also whether an
        /// expression that rejects every packet is an error. Default: yes.
        pub optimize: bool,
        /// Whether the program may ask the kernel for data outside the packet (direction, interface):
        /// for live capture only. Default: no.
        pub ancillary: bool,
        /// Whether a host of the other byte order wrote the capture. This matters for link types with a
        /// header in host order. Default: no.
        pub swapped: bool,
        /// Whether packets come from a file, perhaps of another system. BSD loopback headers then have
        /// the address families of all systems, otherwise those of this one. Default: no.
        pub from_file: bool,
        /// Whether the extensions of the language are enabled: sets (`port in { 80, 443 }`), packets in tunnels
        /// (`vxlan 5 inner (tcp)`), transports after the extension headers of IPv6 (`deep (tcp port 80)`), and
        /// the packet's process (`process nginx`).
        /// Each of them is an error in libpcap, so no valid expression changes its meaning. Default: no.
        pub extensions: bool,
        /// The questions that the program may ask about the process of a packet. Default: none.
        pub processes: process::ProcessTests,
    }
}

impl CompileOptions {
    /// Returns the defaults for a link type.
    #[must_use]
    pub fn new(link_type: LinkType) -> Self {
        Self {
            link_type,
            snaplen: ringtap_packet::MAX_SNAPLEN,
            netmask: None,
            optimize: true,
            ancillary: false,
            swapped: false,
            from_file: false,
            extensions: false,
            processes: process::ProcessTests::default(),
        }
    }
}

/// Compiles an expression of the pcap-filter language (pcap-filter(7)). The empty expression
/// accepts every packet.
///
/// # Errors
/// Returns an error with its place if the expression is invalid; [`CompileError::render`] shows it.
pub fn compile(
    expr: &str,
    options: &CompileOptions,
    resolver: &dyn Resolver,
) -> Result<Program, CompileError> {
    program(expr, options, resolver).map_err(|error| advice::advised(error, expr))
}

fn program(
    expr: &str,
    options: &CompileOptions,
    resolver: &dyn Resolver,
) -> Result<Program, CompileError> {
    let whole = |kind| CompileError::new(0..expr.len(), kind);
    let Decision {
        mut graph,
        values,
        may_refuse,
    } = decision(expr, options, resolver)?;
    if ir::optimize(&mut graph, &values).is_err() && may_refuse {
        return Err(whole(ErrorKind::RejectsAll));
    }
    emit::emit(&graph, &values, options.snaplen, options.optimize).map_err(whole)
}

/// An expression as a decision graph, before optimisation.
struct Decision {
    graph: ir::Graph,
    values: ir::Values,
    /// Whether libpcap also reports an error if the expression rejects every packet.
    may_refuse: bool,
}

fn decision(
    expr: &str,
    options: &CompileOptions,
    resolver: &dyn Resolver,
) -> Result<Decision, CompileError> {
    let whole = |kind| CompileError::new(0..expr.len(), kind);
    let link = link::link_layer(options)
        .ok_or_else(|| whole(ErrorKind::UnknownLinkType(options.link_type)))?;
    let tree = language::parse(expr, options.extensions)?;
    let may_refuse = options.optimize && !tree.as_ref().is_some_and(lower::defeats_optimizer);
    let as_libpcap = CompileOptions {
        optimize: may_refuse,
        ..options.clone()
    };
    let mut values = ir::Values::new(may_refuse);
    let lowered = match tree {
        Some(tree) => lower::lower(&tree, &as_libpcap, &*link, resolver, &mut values)?,
        None => lower::Whole::accepting(),
    };
    if values.cells() > program::opcode::MEMWORDS {
        return Err(whole(ErrorKind::TooManyPlaces));
    }
    let level = match (options.optimize, may_refuse) {
        (false, _) => ir::Level::AsWritten,
        (true, false) => ir::Level::AllLoads,
        (true, true) => ir::Level::AsLibpcap,
    };
    let graph = ir::Graph::new(&lowered.condition, &mut values, level);
    if graph.is_too_large() {
        return Err(whole(ErrorKind::TooLarge));
    }
    Ok(Decision {
        graph,
        values,
        may_refuse: may_refuse && !lowered.branches_before,
    })
}
