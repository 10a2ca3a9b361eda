//! The programs that write the current process into a socket's storage.
//!
//! The storage has a counter and a tag ([`ringtap_packet::process::layout`]). The counter is odd while a program
//! writes the tag; a reader that finds it odd, or changed after its copy, does not use the copy.
//!
//! Registers: R6 the socket, R7 the current thread's structure, R8 and R9 the storage, then the event.

use ringtap_filter::ebpf::{AluOp, Assembler, AtomicOp, Cond, Helper, Label, Reg, Size, Width};
use ringtap_packet::process::{PROCESS_TAG_BYTES, layout};
use ringtap_packet::protocol;
use ringtap_sys::bpf::{CgroupHook, KernelTypes};

use super::Who;
use crate::emit::{as_imm, load_map, load_slot, load_value};

/// Bytes of a socket's storage: the counter, then the tag.
pub(super) const OWNER: u32 = 8 + TAG_BYTES as u32;
pub(super) const TAG_BYTES: i16 = 56;
/// The offset of the tag in the storage.
pub(crate) const OWNER_TAG: i16 = 8;
/// The counter of a tag that was written once, by the application.
pub(crate) const STABLE: u64 = 2;
const _: () = assert!(PROCESS_TAG_BYTES == TAG_BYTES.cast_unsigned() as usize);

/// The key of a process whose description was passed on: number, user, start, name and control group, as they lie in
/// the tag.
pub(super) const SEEN_KEY: u32 = 40;
const KEY_IN_TAG: i16 = 8;

/// An event: the tag, the length of the command line, the command line, the names of control groups.
pub(super) const COMMAND_AT: usize = PROCESS_TAG_BYTES + 8;
const COMMAND: usize = 512;
pub(super) const CGROUP_AT: usize = COMMAND_AT + COMMAND;
/// Bytes of the name of a control group; names of containers have up to 85.
pub(super) const COMPONENT: usize = 96;
/// The number of control groups, from the process's own outwards.
pub(super) const COMPONENTS: usize = 12;
#[expect(clippy::cast_possible_truncation, reason = "a few hundred bytes")]
pub(super) const EVENT: u32 = (CGROUP_AT + COMPONENT * COMPONENTS) as u32;

/// Offsets of the counters.
const REFUSED: u32 = 0;
const UNDESCRIBED: u32 = 8;

/// Nanoseconds of a hundredth of a second.
const TICK: i32 = 10_000_000;
/// `BPF_SK_STORAGE_GET_F_CREATE`.
const CREATE: i32 = 1;
/// `AF_UNIX` and `AF_NETLINK`, whose sockets send no packets.
const LOCAL: [i32; 2] = [1, 16];
/// The user that is not recorded.
const NO_USER: i32 = -1;

/// The offset of the socket in `struct __sk_buff` and in `struct bpf_sock_addr`, and of the protocol in
/// `struct bpf_sock`.
const SKB_SOCKET: i16 = 168;
const ADDRESS_SOCKET: i16 = 64;
const SOCK_PROTOCOL: i16 = 12;

/// Slots of the stack.
mod slot {
    pub(super) const TAG: i16 = -super::TAG_BYTES;
    pub(super) const VALUE: i16 = TAG - 8;
}

/// Where a program runs, in the process that uses a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hook {
    /// At the entry of a kernel function, whose first argument is a socket of a process, or, if the second field
    /// is set, the kernel's socket itself.
    Function(&'static str, bool),
    /// At a tracepoint whose first argument is the kernel's socket.
    Tracepoint(&'static str),
    /// For the sockets of all control groups.
    Cgroup(CgroupHook),
}

/// A place of a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) hook: Hook,
    /// The argument that is not 0 if the kernel makes the socket for itself.
    kernel_argument: Option<i16>,
    /// Whether processes cannot be found without it.
    pub(super) is_needed: bool,
}

const fn function(name: &'static str) -> Place {
    Place {
        hook: Hook::Function(name, false),
        kernel_argument: None,
        is_needed: false,
    }
}

const fn tracepoint(name: &'static str) -> Place {
    Place {
        hook: Hook::Tracepoint(name),
        ..function(name)
    }
}

const fn group(hook: CgroupHook) -> Place {
    Place {
        hook: Hook::Cgroup(hook),
        kernel_argument: None,
        is_needed: true,
    }
}

/// The functions that every use of a socket calls. They are exact, and serve all families of sockets.
pub(super) const FUNCTIONS: [Place; 9] = [
    Place {
        kernel_argument: Some(4),
        is_needed: true,
        ..function("security_socket_post_create")
    },
    function("security_socket_bind"),
    function("security_socket_connect"),
    function("security_socket_listen"),
    // A connection that was accepted.
    Place {
        hook: Hook::Function("security_sock_graft", true),
        ..function("")
    },
    Place {
        is_needed: true,
        ..function("security_socket_sendmsg")
    },
    function("security_socket_recvmsg"),
    function("security_socket_shutdown"),
    // sendfile(2) before Linux 6.5.
    function("inet_sendpage"),
];

/// The places on kernels whose functions cannot be traced. A socket's packets are sent by the process that calls,
/// except TCP's.
pub(super) const WITHOUT_FUNCTIONS: [Place; 11] = [
    group(CgroupHook::Create),
    group(CgroupHook::Bind4),
    group(CgroupHook::Bind6),
    group(CgroupHook::Connect4),
    group(CgroupHook::Connect6),
    group(CgroupHook::Send4),
    group(CgroupHook::Send6),
    group(CgroupHook::Egress),
    // Before the segment is sent (Linux 6.16).
    tracepoint("tcp_sendmsg_locked"),
    // After the bytes were sent or read (Linux 6.3).
    tracepoint("sock_send_length"),
    tracepoint("sock_recv_length"),
];

/// The maps of the programs, by their fds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Maps {
    pub(super) owners: i32,
    pub(super) seen: i32,
    pub(super) counters: i32,
    pub(super) events: i32,
}

/// Offsets in the running kernel's structures.
#[derive(Clone, Copy, Debug)]
pub(super) struct Structures {
    socket_inner: i16,
    family: i16,
    net: i16,
    net_number: i16,
    namespaces: i16,
    own_net: i16,
    leader: i16,
    comm: i16,
    start: i16,
    memory: i16,
    arguments: i16,
    arguments_end: i16,
    groups: i16,
    default_group: i16,
    folder: i16,
    folder_name: i16,
    folder_parent: i16,
}

impl Structures {
    /// Finds the offsets, or returns what the kernel lacks.
    pub(super) fn find(types: &KernelTypes) -> Result<Self, &'static str> {
        let offset = |structure: &str, member: &str| {
            let found = types.member(structure, member)?;
            i16::try_from(found).ok()
        };
        let needed = |text: &'static str| {
            let (structure, member) = text.split_once('.').unwrap_or_default();
            offset(structure, member).ok_or(text)
        };
        let parent = offset("kernfs_node", "__parent").or_else(|| offset("kernfs_node", "parent"));
        let number = needed("net.ns")?;
        Ok(Self {
            socket_inner: needed("socket.sk")?,
            family: needed("sock_common.skc_family")?,
            net: needed("sock_common.skc_net")?,
            net_number: number + needed("ns_common.inum")?,
            namespaces: needed("task_struct.nsproxy")?,
            own_net: needed("nsproxy.net_ns")?,
            leader: needed("task_struct.group_leader")?,
            comm: needed("task_struct.comm")?,
            start: needed("task_struct.start_boottime")?,
            memory: needed("task_struct.mm")?,
            arguments: needed("mm_struct.arg_start")?,
            arguments_end: needed("mm_struct.arg_end")?,
            groups: needed("task_struct.cgroups")?,
            default_group: needed("css_set.dfl_cgrp")?,
            folder: needed("cgroup.kn")?,
            folder_name: needed("kernfs_node.name")?,
            folder_parent: parent.ok_or("kernfs_node.parent")?,
        })
    }
}

/// Returns the program for a place.
pub(super) fn code(place: Place, structures: &Structures, maps: Maps, who: Who) -> Vec<u64> {
    let writer = Writer {
        place,
        structures,
        maps,
        who,
    };
    let mut asm = Assembler::new();
    writer.emit(&mut asm);
    // All labels are placed, and near.
    asm.finish().unwrap_or_default()
}

struct Writer<'a> {
    place: Place,
    structures: &'a Structures,
    maps: Maps,
    who: Who,
}

impl Writer<'_> {
    fn emit(&self, asm: &mut Assembler) {
        let (out, refused, changed, lost) = (asm.label(), asm.label(), asm.label(), asm.label());
        // Only sockets of processes are sent from here, but the kernel has others.
        let creates = self.place.hook != Hook::Cgroup(CgroupHook::Egress);
        self.find_socket(out, asm);
        self.make_tag(asm);
        load_map(Reg::R1, self.maps.owners, asm);
        asm.mov64(Reg::R2, Reg::R6);
        asm.mov64(Reg::R3, 0);
        asm.mov64(Reg::R4, if creates { CREATE } else { 0 });
        asm.call(Helper::SkStorageGet);
        let none = if creates { refused } else { out };
        asm.jump_if(Cond::Eq, Width::W64, Reg::R0, 0, none);
        asm.mov64(Reg::R9, Reg::R0);
        self.keep_namespace(asm);
        for at in words() {
            asm.load(Size::Dw, Reg::R1, Reg::R9, OWNER_TAG + at);
            asm.load(Size::Dw, Reg::R2, Reg::R10, slot::TAG + at);
            asm.jump_if(Cond::Ne, Width::W64, Reg::R1, Reg::R2, changed);
        }
        asm.jump(out);
        asm.place(changed);
        write_owner(out, asm);
        self.describe(out, lost, asm);
        asm.jump(out);
        if creates {
            asm.place(refused);
            self.count(REFUSED, asm);
            asm.jump(out);
        }
        asm.place(lost);
        self.count(UNDESCRIBED, asm);
        asm.place(out);
        // Control groups let the operation proceed.
        asm.mov32(Reg::R0, i32::from(self.is_group()));
        asm.exit();
    }

    fn is_group(&self) -> bool {
        matches!(self.place.hook, Hook::Cgroup(_))
    }

    /// Puts the socket into R6; goes to `out` if its packets are of no interest.
    fn find_socket(&self, out: Label, asm: &mut Assembler) {
        let is_inner = match self.place.hook {
            Hook::Cgroup(hook) => return find_in_group(hook, out, asm),
            Hook::Function(_, is_inner) => is_inner,
            Hook::Tracepoint(_) => true,
        };
        if let Some(argument) = self.place.kernel_argument {
            asm.load(Size::Dw, Reg::R2, Reg::R1, argument * 8);
            asm.jump_if(Cond::Ne, Width::W32, Reg::R2, 0, out);
        }
        asm.load(Size::Dw, Reg::R6, Reg::R1, 0);
        asm.jump_if(Cond::Eq, Width::W64, Reg::R6, 0, out);
        if !is_inner {
            asm.load(Size::Dw, Reg::R6, Reg::R6, self.structures.socket_inner);
            asm.jump_if(Cond::Eq, Width::W64, Reg::R6, 0, out);
        }
        asm.load(Size::H, Reg::R1, Reg::R6, self.structures.family);
        for family in LOCAL {
            asm.jump_if(Cond::Eq, Width::W64, Reg::R1, family, out);
        }
    }

    /// Writes the tag of the current process to the stack.
    fn make_tag(&self, asm: &mut Assembler) {
        let at = |offset: usize| slot::TAG + i16::try_from(offset).unwrap_or_default();
        let big = u8::from(cfg!(target_endian = "big"));
        let head = [layout::MAGIC, layout::VERSION, big, layout::USED];
        asm.call(Helper::GetCurrentTaskBtf);
        asm.mov64(Reg::R7, Reg::R0);
        asm.store_imm(
            Size::W,
            Reg::R10,
            at(layout::HEAD),
            i32::from_ne_bytes(head),
        );
        asm.call(Helper::GetCurrentPidTgid);
        asm.store(Size::W, Reg::R10, at(layout::TID), Reg::R0);
        asm.alu64(AluOp::Rsh, Reg::R0, 32);
        asm.store(Size::W, Reg::R10, at(layout::PID), Reg::R0);
        if self.who.uid {
            asm.call(Helper::GetCurrentUidGid);
            asm.store(Size::W, Reg::R10, at(layout::UID), Reg::R0);
        } else {
            asm.store_imm(Size::W, Reg::R10, at(layout::UID), NO_USER);
        }
        asm.load(Size::Dw, Reg::R8, Reg::R7, self.structures.leader);
        asm.load(Size::Dw, Reg::R1, Reg::R8, self.structures.start);
        asm.alu64(AluOp::Div, Reg::R1, TICK);
        asm.store(Size::Dw, Reg::R10, at(layout::START), Reg::R1);
        asm.store_imm(Size::Dw, Reg::R10, at(layout::COMM), 0);
        asm.store_imm(Size::Dw, Reg::R10, at(layout::COMM) + 8, 0);
        if self.who.comm {
            load_slot(Reg::R1, at(layout::COMM), asm);
            asm.mov64(Reg::R2, 16);
            asm.mov64(Reg::R3, Reg::R8);
            asm.add64(Reg::R3, i32::from(self.structures.comm));
            asm.call(Helper::ProbeReadKernelStr);
        }
        if self.who.cgroup {
            asm.call(Helper::GetCurrentCgroupId);
            asm.store(Size::Dw, Reg::R10, at(layout::CGROUP), Reg::R0);
        } else {
            asm.store_imm(Size::Dw, Reg::R10, at(layout::CGROUP), 0);
        }
        if self.is_group() {
            asm.load(Size::Dw, Reg::R1, Reg::R7, self.structures.namespaces);
            asm.load(Size::Dw, Reg::R1, Reg::R1, self.structures.own_net);
        } else {
            asm.load(Size::Dw, Reg::R1, Reg::R6, self.structures.net);
        }
        asm.load(Size::W, Reg::R1, Reg::R1, self.structures.net_number);
        asm.store(Size::W, Reg::R10, at(layout::NAMESPACE), Reg::R1);
        asm.store_imm(Size::W, Reg::R10, at(layout::NAMESPACE) + 4, 0);
    }

    /// Keeps the namespace in the storage at R9: here only that of the process is known, and the socket was created
    /// in one like it.
    fn keep_namespace(&self, asm: &mut Assembler) {
        if !self.is_group() {
            return;
        }
        let new = asm.label();
        let at = i16::try_from(layout::NAMESPACE).unwrap_or_default();
        asm.load(Size::W, Reg::R1, Reg::R9, OWNER_TAG + at);
        asm.jump_if(Cond::Eq, Width::W64, Reg::R1, 0, new);
        asm.store(Size::W, Reg::R10, slot::TAG + at, Reg::R1);
        asm.place(new);
    }

    /// Passes on the description of a process that was not seen before. Goes to `lost` if there is no room.
    fn describe(&self, out: Label, lost: Label, asm: &mut Assembler) {
        self.look_for_seen(asm);
        asm.call(Helper::MapLookupElem);
        asm.jump_if(Cond::Ne, Width::W64, Reg::R0, 0, out);
        load_map(Reg::R1, self.maps.events, asm);
        asm.mov64(Reg::R2, EVENT.cast_signed());
        asm.mov64(Reg::R3, 0);
        asm.call(Helper::RingbufReserve);
        asm.jump_if(Cond::Eq, Width::W64, Reg::R0, 0, lost);
        asm.mov64(Reg::R8, Reg::R0);
        for at in words() {
            asm.load(Size::Dw, Reg::R1, Reg::R10, slot::TAG + at);
            asm.store(Size::Dw, Reg::R8, at, Reg::R1);
        }
        asm.store_imm(Size::Dw, Reg::R8, TAG_BYTES, 0);
        if self.who.command_line {
            self.read_command_line(asm);
        }
        self.read_cgroup(asm);
        asm.mov64(Reg::R1, Reg::R8);
        asm.mov64(Reg::R2, 0);
        asm.call(Helper::RingbufSubmit);
        asm.store_imm(Size::Dw, Reg::R10, slot::VALUE, 1);
        self.look_for_seen(asm);
        load_slot(Reg::R3, slot::VALUE, asm);
        asm.mov64(Reg::R4, 0);
        asm.call(Helper::MapUpdateElem);
    }

    /// Puts the map of processes that were seen into R1, and the address of this one's key into R2.
    fn look_for_seen(&self, asm: &mut Assembler) {
        load_map(Reg::R1, self.maps.seen, asm);
        load_slot(Reg::R2, slot::TAG + KEY_IN_TAG, asm);
    }

    /// Reads the arguments of the current process into the event in R8.
    fn read_command_line(&self, asm: &mut Assembler) {
        let (none, short) = (asm.label(), asm.label());
        let most = as_imm(COMMAND);
        asm.load(Size::Dw, Reg::R1, Reg::R7, self.structures.memory);
        asm.jump_if(Cond::Eq, Width::W64, Reg::R1, 0, none);
        asm.load(Size::Dw, Reg::R3, Reg::R1, self.structures.arguments);
        asm.load(Size::Dw, Reg::R2, Reg::R1, self.structures.arguments_end);
        asm.alu64(AluOp::Sub, Reg::R2, Reg::R3);
        asm.jump_if(Cond::Le, Width::W64, Reg::R2, most, short);
        asm.mov64(Reg::R2, most);
        asm.place(short);
        asm.jump_if(Cond::Lt, Width::W64, Reg::R2, 1, none);
        asm.mov64(Reg::R9, Reg::R2);
        asm.mov64(Reg::R1, Reg::R8);
        asm.add64(Reg::R1, as_imm(COMMAND_AT));
        asm.call(Helper::ProbeReadUser);
        asm.jump_if(Cond::Ne, Width::W64, Reg::R0, 0, none);
        asm.store(Size::W, Reg::R8, TAG_BYTES, Reg::R9);
        asm.place(none);
    }

    /// Writes the names of the control group and those around it into the event in R8.
    fn read_cgroup(&self, asm: &mut Assembler) {
        let end = asm.label();
        let at = |index: usize| as_imm(CGROUP_AT + index * COMPONENT);
        for index in 0..COMPONENTS {
            let offset = i16::try_from(at(index)).unwrap_or_default();
            asm.store_imm(Size::B, Reg::R8, offset, 0);
        }
        if !self.who.cgroup {
            return;
        }
        asm.load(Size::Dw, Reg::R1, Reg::R7, self.structures.groups);
        asm.load(Size::Dw, Reg::R1, Reg::R1, self.structures.default_group);
        asm.load(Size::Dw, Reg::R9, Reg::R1, self.structures.folder);
        for index in 0..COMPONENTS {
            asm.jump_if(Cond::Eq, Width::W64, Reg::R9, 0, end);
            asm.mov64(Reg::R1, Reg::R8);
            asm.add64(Reg::R1, at(index));
            asm.mov64(Reg::R2, as_imm(COMPONENT));
            asm.load(Size::Dw, Reg::R3, Reg::R9, self.structures.folder_name);
            asm.call(Helper::ProbeReadKernelStr);
            asm.load(Size::Dw, Reg::R9, Reg::R9, self.structures.folder_parent);
        }
        asm.place(end);
    }

    fn count(&self, offset: u32, asm: &mut Assembler) {
        load_value(Reg::R1, self.maps.counters, offset, asm);
        asm.mov64(Reg::R2, 1);
        asm.atomic(Size::Dw, AtomicOp::Add, Reg::R1, 0, Reg::R2);
    }
}

/// Puts the socket of a control group's program into R6; goes to `out` if TCP sends the packet, since its segments
/// may leave in the time of another process.
fn find_in_group(hook: CgroupHook, out: Label, asm: &mut Assembler) {
    match hook {
        CgroupHook::Egress => {
            asm.load(Size::Dw, Reg::R1, Reg::R1, SKB_SOCKET);
            asm.jump_if(Cond::Eq, Width::W64, Reg::R1, 0, out);
            asm.call(Helper::SkFullsock);
            asm.jump_if(Cond::Eq, Width::W64, Reg::R0, 0, out);
            asm.mov64(Reg::R6, Reg::R0);
            asm.load(Size::W, Reg::R1, Reg::R6, SOCK_PROTOCOL);
            let tcp = i32::from(protocol::TCP);
            asm.jump_if(Cond::Eq, Width::W64, Reg::R1, tcp, out);
        }
        CgroupHook::Create | CgroupHook::Bind4 | CgroupHook::Bind6 => {
            asm.mov64(Reg::R6, Reg::R1);
        }
        _ => {
            asm.load(Size::Dw, Reg::R6, Reg::R1, ADDRESS_SOCKET);
            asm.jump_if(Cond::Eq, Width::W64, Reg::R6, 0, out);
        }
    }
}

/// Writes the tag into the storage in R9; goes to `out` if another program is writing one.
fn write_owner(out: Label, asm: &mut Assembler) {
    asm.load(Size::Dw, Reg::R1, Reg::R9, 0);
    asm.mov64(Reg::R2, Reg::R1);
    asm.alu64(AluOp::And, Reg::R2, 1);
    asm.jump_if(Cond::Ne, Width::W64, Reg::R2, 0, out);
    asm.mov64(Reg::R0, Reg::R1);
    asm.mov64(Reg::R2, Reg::R1);
    asm.add64(Reg::R2, 1);
    asm.atomic(Size::Dw, AtomicOp::CompareExchange, Reg::R9, 0, Reg::R2);
    asm.jump_if(Cond::Ne, Width::W64, Reg::R0, Reg::R1, out);
    for at in words() {
        asm.load(Size::Dw, Reg::R3, Reg::R10, slot::TAG + at);
        asm.store(Size::Dw, Reg::R9, OWNER_TAG + at, Reg::R3);
    }
    asm.add64(Reg::R2, 1);
    asm.atomic(Size::Dw, AtomicOp::Exchange, Reg::R9, 0, Reg::R2);
}

/// Returns the offsets of a tag's words of 64 bits.
fn words() -> impl Iterator<Item = i16> {
    (0..TAG_BYTES).step_by(8)
}
