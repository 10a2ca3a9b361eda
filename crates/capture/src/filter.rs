//! Filters of sources: an expression that is compiled for each link type.

mod processes;

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ringtap_filter::process::{Asked, PacketOwner, ProcessTests};
use ringtap_filter::program::opcode as op;
use ringtap_filter::search::{self, KeyReader, Need};
use ringtap_filter::socket::{self, Header, SocketView};
use ringtap_filter::{
    Ancillary, CompileOptions, Insn, Program, ResolveError, Resolver, Transport, compile,
};
use ringtap_packet::{LinkType, Packet, PacketFlags};
use ringtap_savefile::{ByteOrder, CaptureFilter, Interface, PacketFilter, Records};
use ringtap_sys::packet::{Instruction, LinkLayer};
use ringtap_sys::resolve::SystemNames;

use crate::hook::HookPoint;
use crate::native::{Native, PacketRef};
use crate::{Error, MAX_SNAPLEN, Result, UserSpaceReason};

pub(crate) use processes::{Answers, Described, Groups, Latest};

/// `PACKET_HOST` of packet(7). It stands for any received packet if only [`op::PACKET_OUTGOING`] matters.
const PACKET_HOST: u32 = 0;
/// The direction bits of [`PacketFlags`].
const DIRECTION: u32 = 3;
/// `if_filter` that holds instructions (draft-ietf-opsawg-pcapng, section 4.2).
const BPF_BYTES: u8 = 1;

/// A filter: an expression of the pcap-filter language, with the settings that its compilation depends on.
#[derive(Clone)]
pub struct Filter {
    expression: String,
    /// The program itself, if there is no expression to compile.
    program: Option<Program>,
    netmask: Option<u32>,
    optimize: bool,
    extensions: bool,
    processes: bool,
    resolver: Arc<dyn Resolver + Send + Sync>,
}

impl Filter {
    /// Returns a filter whose names the system resolves. It is compiled when a source is opened with it, and
    /// link types are known.
    #[must_use]
    pub fn new(expression: impl Into<String>) -> Self {
        Self {
            expression: expression.into(),
            program: None,
            netmask: None,
            optimize: true,
            extensions: false,
            processes: false,
            resolver: Arc::new(SystemResolver::default()),
        }
    }

    /// Returns a filter that is already compiled, for packets as they are delivered. It is the same for every
    /// link type.
    #[must_use]
    pub fn from_program(program: Program) -> Self {
        Self {
            program: Some(program),
            ..Self::new("")
        }
    }

    /// Sets the netmask of the interface's network, for `ip broadcast`.
    #[must_use]
    pub fn with_netmask(mut self, netmask: Ipv4Addr) -> Self {
        self.netmask = Some(netmask.into());
        self
    }

    /// Sets the netmask for a capture on a device: if none was given and the expression may need one, that of
    /// the device's first IPv4 network.
    pub(crate) fn on_device(&self, name: &str) -> Self {
        if self.netmask.is_some() || !self.expression.contains("broadcast") {
            return self.clone();
        }
        let device = crate::devices::by_name(name).ok();
        let addresses = device.iter().flat_map(|device| &device.addresses);
        let mut netmasks = addresses.filter_map(|address| match address.netmask() {
            IpAddr::V4(netmask) => Some(netmask),
            IpAddr::V6(_) => None,
        });
        match netmasks.next() {
            Some(netmask) => self.clone().with_netmask(netmask),
            None => self.clone(),
        }
    }

    /// Turns the optimizer on (the default) or off.
    #[must_use]
    pub fn with_optimizer(mut self, on: bool) -> Self {
        self.optimize = on;
        self
    }

    /// Turns the extensions of the language on or off (the default): sets, packets in tunnels, transports
    /// after IPv6 extension headers, processes.
    #[must_use]
    pub fn with_extensions(mut self, on: bool) -> Self {
        self.extensions = on;
        self
    }

    /// Sets whether compiled programs may ask for the packet's process, which only sources know: they set it
    /// themselves. Default: no.
    #[must_use]
    pub fn with_processes(mut self, on: bool) -> Self {
        self.processes = on;
        self
    }

    /// Sets a name resolver other than the system.
    #[must_use]
    pub fn with_resolver(mut self, resolver: Arc<dyn Resolver + Send + Sync>) -> Self {
        self.resolver = resolver;
        self
    }

    /// Returns the filter in the form of capture files.
    pub(crate) fn for_file(&self) -> CaptureFilter {
        match &self.program {
            None => CaptureFilter::Expression(self.expression.clone()),
            Some(program) => CaptureFilter::Raw {
                code: BPF_BYTES,
                bytes: program.insns().iter().flat_map(bytes_of).collect(),
            },
        }
    }

    /// Returns the expression.
    #[must_use]
    pub fn expression(&self) -> &str {
        &self.expression
    }

    /// Returns the program for packets of a link type as this host captures them. It may use ancillary loads
    /// for facts that the kernel knows beside the bytes: direction and interface.
    ///
    /// # Errors
    ///
    /// The expression is not a valid filter, or not for this link type.
    pub fn compile(&self, link_type: LinkType, snaplen: u32) -> Result<Program> {
        self.compile_knowing(self.process_tests(), link_type, snaplen)
    }

    fn process_tests(&self) -> ProcessTests {
        match self.processes {
            true => ProcessTests::Complete,
            false => ProcessTests::Refused,
        }
    }

    /// Returns the program as [`compile`](Self::compile), which may ask this of a packet's process.
    pub(crate) fn compile_knowing(
        &self,
        processes: ProcessTests,
        link_type: LinkType,
        snaplen: u32,
    ) -> Result<Program> {
        self.compile_for(link_type, |options| {
            options.snaplen = snaplen;
            options.ancillary = true;
            options.processes = processes;
        })
    }

    /// Returns what the expression asks about processes. If it is invalid, compiling it reports the error.
    pub(crate) fn asked(&self) -> Asked {
        match self.program {
            Some(_) => Asked::default(),
            None => Asked::of(&self.expression, self.extensions).unwrap_or_default(),
        }
    }

    /// Returns the program for packets of a file with this byte order.
    ///
    /// # Errors
    ///
    /// The same errors as [`compile`](Self::compile).
    pub fn compile_for_file(
        &self,
        link_type: LinkType,
        byte_order: ByteOrder,
        snaplen: u32,
    ) -> Result<Program> {
        self.compile_for(link_type, |options| {
            options.snaplen = snaplen;
            options.processes = self.process_tests();
            as_in_file(options, byte_order);
        })
    }

    /// Returns whether compiling the filter resolves host names, which may need the network. A process checks
    /// this before it gives up that privilege. Returns true if it is unknown.
    #[must_use]
    pub fn looks_up_hosts(&self) -> bool {
        if self.program.is_some() {
            return false;
        }
        let asked = HostsAsked::default();
        let mut options = CompileOptions::new(LinkType::ETHERNET);
        options.extensions = self.extensions;
        options.processes = ProcessTests::Complete;
        let compiled = compile(&self.expression, &options, &asked);
        compiled.is_err() || asked.0.load(Ordering::Relaxed)
    }

    /// Returns the properties that a packet needs to match the filter. If the expression is invalid,
    /// compiling it reports the error.
    pub(crate) fn need(&self) -> Need {
        if self.program.is_some() {
            return Need::Nothing;
        }
        let need = search::need(&self.expression, self.extensions, &*self.resolver);
        need.unwrap_or(Need::Nothing)
    }

    fn compile_for(
        &self,
        link_type: LinkType,
        adapt: impl FnOnce(&mut CompileOptions),
    ) -> Result<Program> {
        if let Some(program) = &self.program {
            return Ok(program.clone());
        }
        let mut options = CompileOptions::new(link_type);
        options.netmask = self.netmask;
        options.optimize = self.optimize;
        options.extensions = self.extensions;
        adapt(&mut options);
        compile(&self.expression, &options, &*self.resolver).map_err(|error| Error::Filter {
            expression: self.expression.clone(),
            link_type,
            error: Box::new(error),
        })
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter")
            .field("expression", &self.expression)
            .field("netmask", &self.netmask)
            .field("optimize", &self.optimize)
            .field("extensions", &self.extensions)
            .field("processes", &self.processes)
            .finish_non_exhaustive()
    }
}

/// Returns the reader of keys in a file's packets, as filters for them see them.
pub(crate) fn key_reader(link_type: LinkType, byte_order: ByteOrder) -> Option<KeyReader> {
    let mut options = CompileOptions::new(link_type);
    as_in_file(&mut options, byte_order);
    KeyReader::new(&options)
}

fn as_in_file(options: &mut CompileOptions, byte_order: ByteOrder) {
    options.from_file = true;
    options.swapped = byte_order != ByteOrder::NATIVE;
}

/// Returns the program for a packet socket, which sees packets in another form than they are delivered.
pub(crate) fn lower(
    program: &Program,
    layer: LinkLayer,
    snaplen: u32,
) -> std::result::Result<Vec<Instruction>, UserSpaceReason> {
    let header = match layer {
        LinkLayer::Ethernet | LinkLayer::Native => Header::Own,
        LinkLayer::CookedV1 => Header::CookedV1,
        LinkLayer::CookedV2 => Header::CookedV2,
        LinkLayer::Netlink => return Err(UserSpaceReason::HeaderBuiltHere),
    };
    let view = SocketView {
        header,
        vlan: layer != LinkLayer::Native,
        // The capture has its own rules for that.
        direction: socket::Direction::Both,
        snaplen,
    };
    let lowered = socket::lower(program, &view).map_err(UserSpaceReason::NotForSockets)?;
    Ok(lowered.insns().iter().map(instruction).collect())
}

/// Returns the program for a hook. There the kernel has not marked sent packets yet, and knows no direction
/// at XDP.
pub(crate) fn at_hook(program: &Program, place: HookPoint) -> Program {
    let packet_type = if !place.is_ingress() {
        op::PACKET_OUTGOING
    } else if place.is_xdp() {
        PACKET_HOST
    } else {
        return program.clone();
    };
    program.with_known(op::SKF_AD_PKTTYPE, packet_type)
}

/// Returns an instruction in the form of files: in the machine's byte order.
fn bytes_of(insn: &Insn) -> [u8; 8] {
    let Insn { code, jt, jf, k } = *insn;
    let ([a, b], [e, f, g, h]) = (code.to_ne_bytes(), k.to_ne_bytes());
    [a, b, jt, jf, e, f, g, h]
}

fn instruction(insn: &Insn) -> Instruction {
    let Insn { code, jt, jf, k } = *insn;
    Instruction { code, jt, jf, k }
}

/// A program that is ready to run on packets: as native code if the processor has a code generator, else in
/// the interpreter.
#[derive(Clone, Debug)]
pub struct Matcher(Runner);

impl Matcher {
    /// Prepares a program.
    #[must_use]
    pub fn new(program: Program) -> Self {
        Self(Runner::new(program))
    }

    /// Returns whether the program accepts the packet.
    #[inline]
    #[must_use]
    pub fn accepts(&self, packet: &Packet<'_>) -> bool {
        self.0.accepts(packet, None)
    }
}

/// How a [`Matcher`] runs.
#[derive(Clone, Debug)]
enum Runner {
    Native(Arc<Native>),
    Interpreter(Program),
    /// A program that asks for the packet's process.
    WithProcess(Program),
    /// A program that depends on the direction, prepared for received and for sent packets.
    ByDirection(Box<[Self; 2]>),
}

impl Runner {
    fn new(program: Program) -> Self {
        Self::interpreted(program).made_native()
    }

    /// Prepares it without native code: generating code takes longer than interpreting some hundred packets.
    fn interpreted(program: Program) -> Self {
        if program.asks_for(op::SKF_AD_PKTTYPE) {
            let known = [PACKET_HOST, op::PACKET_OUTGOING];
            let each = known.map(|kind| program.with_known(op::SKF_AD_PKTTYPE, kind));
            return Self::ByDirection(Box::new(each.map(Self::interpreted)));
        }
        if program.asks_for_process() {
            return Self::WithProcess(program);
        }
        Self::Interpreter(program)
    }

    fn made_native(self) -> Self {
        match self {
            Self::Native(native) => Self::Native(native),
            Self::WithProcess(program) => Self::WithProcess(program),
            Self::Interpreter(program) => match Native::compile(&program) {
                Ok(native) => Self::Native(Arc::new(native)),
                // The interpreter runs every program; native code is only faster.
                Err(_) => Self::Interpreter(program),
            },
            Self::ByDirection(each) => Self::ByDirection(Box::new(each.map(Self::made_native))),
        }
    }

    #[inline]
    fn accepts(&self, packet: &Packet<'_>, answers: Option<&Answers>) -> bool {
        let verdict = match self {
            Self::Native(native) => native.run(packet.data, packet.len),
            Self::Interpreter(program) => program.run(packet.data, packet.len),
            Self::WithProcess(program) => {
                let owner = answers.map(|answers| answers.owner(packet));
                let beside = Ancillary {
                    process: owner.unwrap_or(PacketOwner::UNKNOWN),
                    ..Ancillary::default()
                };
                program.run_with(packet.data, packet.len, &beside)
            }
            Self::ByDirection(each) => {
                let [received, sent] = &**each;
                let is_sent = packet.flags.0 & DIRECTION == PacketFlags::OUTBOUND.0;
                return if is_sent { sent } else { received }.accepts(packet, answers);
            }
        };
        verdict != 0
    }
}

/// A filter compiled for the interfaces of a source.
#[derive(Clone, Debug)]
pub(crate) struct FilterTable {
    /// One program for each link type among the interfaces, and byte order of its headers.
    programs: Vec<((LinkType, ByteOrder), Runner)>,
    /// The index of each interface's program.
    by_interface: Vec<usize>,
    /// The snapshot length, in bytes.
    snaplen: u32,
    /// The knowledge about processes, for its questions.
    answers: Answers,
}

impl FilterTable {
    /// Returns a table for few packets of a source with one interface of that index: it uses the interpreter.
    pub(crate) fn of_few(program: &Program, link_type: LinkType, index: u32, snaplen: u32) -> Self {
        let program = program.with_known(op::SKF_AD_IFINDEX, index);
        let key = (link_type, ByteOrder::NATIVE);
        Self {
            programs: vec![(key, Runner::interpreted(program))],
            by_interface: vec![0],
            ..Self::of_live(snaplen, Answers::default())
        }
    }

    /// Compiles it to native code, for many packets.
    pub(crate) fn made_native(mut self) -> Self {
        self.make_native();
        self
    }

    /// Converts interpreted programs to native code.
    pub(crate) fn make_native(&mut self) {
        for (_, runner) in &mut self.programs {
            *runner = runner.clone().made_native();
        }
    }

    /// Returns an empty table for a live capture.
    pub(crate) fn of_live(snaplen: u32, answers: Answers) -> Self {
        Self {
            programs: Vec::new(),
            by_interface: Vec::new(),
            snaplen,
            answers,
        }
    }

    /// Adds a live capture's next interface, of that index, with its program.
    pub(crate) fn add(&mut self, program: &Program, link_type: LinkType, index: u32) {
        let program = program.with_known(op::SKF_AD_IFINDEX, index);
        self.by_interface.push(self.programs.len());
        let key = (link_type, ByteOrder::NATIVE);
        self.programs.push((key, Runner::new(program)));
    }

    /// Returns an empty table for a file whose packets are not cut.
    pub(crate) fn of_file(answers: Answers) -> Self {
        Self::of_live(u32::MAX, answers)
    }

    /// Replaces what is known about processes.
    pub(crate) fn set_answers(&mut self, answers: Answers) {
        self.answers = answers;
    }

    /// Answers the filter's questions for another control group.
    pub(crate) fn learn(&mut self, described: &Described) {
        self.answers.learn(described);
    }

    /// Returns the number of programs.
    pub(crate) fn programs(&self) -> usize {
        self.programs.len()
    }

    /// Returns whether it has this number of interfaces.
    pub(crate) fn knows(&self, interfaces: usize) -> bool {
        self.by_interface.len() >= interfaces
    }

    /// Compiles `filter` for the interfaces of a file that were added since the last call, for the
    /// interpreter and that byte order.
    pub(crate) fn extend(
        &mut self,
        filter: &Filter,
        interfaces: &[Interface],
        byte_order: ByteOrder,
    ) -> Result<()> {
        let new = interfaces.get(self.by_interface.len()..);
        for interface in new.unwrap_or_default() {
            let key = (interface.link_type, byte_order);
            let known = self.programs.iter().position(|(of, _)| *of == key);
            let index = match known {
                Some(index) => index,
                None => {
                    let filter = filter.clone().with_processes(true);
                    let program =
                        filter.compile_for_file(interface.link_type, byte_order, MAX_SNAPLEN)?;
                    self.programs.push((key, Runner::interpreted(program)));
                    self.programs.len() - 1
                }
            };
            self.by_interface.push(index);
        }
        Ok(())
    }

    /// Returns the packet, cut to the snaplen, if the filter accepts it.
    #[inline]
    pub(crate) fn apply<'a>(&self, mut packet: Packet<'a>) -> Option<Packet<'a>> {
        let index = *self.by_interface.get(packet.interface as usize)?;
        let (_, runner) = self.programs.get(index)?;
        if !runner.accepts(&packet, Some(&self.answers)) {
            return None;
        }
        if let Some((kept, _)) = packet.data.split_at_checked(self.snaplen as usize) {
            packet.data = kept;
        }
        Some(packet)
    }
}

/// Packets in one call of native code.
const BATCH: usize = 64;

impl PacketFilter for FilterTable {
    fn choose(&self, mut packets: Records<'_>, wanted: &mut Vec<bool>) {
        let [(_, Runner::Native(native))] = &self.programs[..] else {
            wanted.extend(packets.map(|packet| self.apply(packet).is_some()));
            return;
        };
        let mut verdicts = [0; BATCH];
        let mut batch = [PacketRef::new(&[], 0); BATCH];
        loop {
            let mut count = 0;
            // Places come first: a packet without a place must not be removed.
            for (place, packet) in batch.iter_mut().zip(&mut packets) {
                *place = PacketRef::new(packet.data, packet.len);
                count += 1;
            }
            if count == 0 {
                return;
            }
            native.run_batch(&batch[..count], &mut verdicts);
            wanted.extend(verdicts[..count].iter().map(|verdict| *verdict != 0));
        }
    }
}

/// Records whether a host name was resolved; it knows every name.
#[derive(Debug, Default)]
struct HostsAsked(AtomicBool);

impl Resolver for HostsAsked {
    fn host(&self, _name: &str) -> std::result::Result<Vec<IpAddr>, ResolveError> {
        self.0.store(true, Ordering::Relaxed);
        Ok(vec![Ipv4Addr::LOCALHOST.into()])
    }

    fn network(&self, _name: &str) -> std::result::Result<Option<Ipv4Addr>, ResolveError> {
        Ok(Some(Ipv4Addr::LOCALHOST))
    }

    fn port(
        &self,
        _name: &str,
        _transport: Transport,
    ) -> std::result::Result<Option<u16>, ResolveError> {
        Ok(Some(1))
    }

    fn protocol(&self, _name: &str) -> std::result::Result<Option<u8>, ResolveError> {
        Ok(Some(1))
    }

    fn ether(&self, _name: &str) -> std::result::Result<Option<[u8; 6]>, ResolveError> {
        Ok(Some([0; 6]))
    }
}

/// The system's names.
#[derive(Debug, Default)]
struct SystemResolver(SystemNames);

impl SystemResolver {
    fn failed(error: &ringtap_sys::Error) -> ResolveError {
        ResolveError(error.to_string())
    }
}

impl Resolver for SystemResolver {
    fn host(&self, name: &str) -> std::result::Result<Vec<IpAddr>, ResolveError> {
        self.0.host(name).map_err(|error| Self::failed(&error))
    }

    fn network(&self, name: &str) -> std::result::Result<Option<Ipv4Addr>, ResolveError> {
        let network = self.0.network(name).map_err(|error| Self::failed(&error))?;
        Ok(network.map(Ipv4Addr::from))
    }

    fn port(
        &self,
        name: &str,
        transport: Transport,
    ) -> std::result::Result<Option<u16>, ResolveError> {
        let wanted = match transport {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
        };
        let services = self.0.service(name).map_err(|error| Self::failed(&error))?;
        Ok(services
            .iter()
            .find(|service| service.protocol == wanted)
            .map(|service| service.port))
    }

    fn protocol(&self, name: &str) -> std::result::Result<Option<u8>, ResolveError> {
        self.0.protocol(name).map_err(|error| Self::failed(&error))
    }

    fn ether(&self, name: &str) -> std::result::Result<Option<[u8; 6]>, ResolveError> {
        self.0.ether(name).map_err(|error| Self::failed(&error))
    }
}
