//! Translates programs into callable functions, in executable memory ([`Executable`]).

use std::sync::OnceLock;

use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I32, I64};
use cranelift_codegen::ir::{
    AbiParam, Block, BlockArg, InstBuilder, MemFlags, Signature, Type, Value,
};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use ringtap_filter::Program;

use crate::emit::{Emitter, Packet};
use crate::error::NativeError;
use crate::facts::{Facts, analyse};
use crate::memory::Executable;
use crate::metadata::Metadata;
use crate::op::{Op, decode};
use crate::packet::PacketRef;
use crate::plan::Plan;

/// `fn(data, caplen, len, metadata or null) -> verdict`
pub(crate) type Single = unsafe extern "C" fn(*const u8, u32, u32, *const Metadata) -> u32;
/// `fn(packets, metadata or null, verdicts, count)`, count at least 1
pub(crate) type Batch =
    unsafe extern "C" fn(*const PacketRef<'_>, *const Metadata, *mut u32, usize);

/// The two functions of a program and the memory that they are in.
pub(crate) struct Code {
    pub(crate) single: Single,
    pub(crate) batch: Batch,
    /// Size of the machine code in bytes.
    pub(crate) size: usize,
    /// The memory of the functions: they can be called only through a borrow of this value.
    _memory: Executable,
}

/// A program with the results of its analysis.
pub(crate) struct Analysed {
    ops: Vec<Op>,
    facts: Vec<Facts>,
    plan: Plan,
}

impl Analysed {
    /// # Errors
    /// The program is too long, or is not classic BPF.
    pub(crate) fn new(program: &Program) -> Result<Self, NativeError> {
        let ops = decode(program.insns())?;
        let facts = analyse(&ops);
        let plan = Plan::new(&ops, &facts);
        Ok(Self { ops, facts, plan })
    }
}

/// Translates a program for this processor.
pub(crate) fn compile(program: &Analysed) -> Result<Code, NativeError> {
    let isa = host()?;
    let single = machine_code(program)?;
    let batch = translate(isa, [I64; 4], None, |builder| write_batch(builder, program))?;
    let placed = Executable::new([&single, &batch]);
    let (memory, [at_single, at_batch]) = placed.map_err(|error| NativeError::Memory {
        reason: error.to_string(),
    })?;
    Ok(Code {
        // SAFETY: the address is that of a complete function, which `machine_code` built with the
        // platform's C calling convention and the signature of `Single`.
        single: unsafe { std::mem::transmute::<*const u8, Single>(at_single) },
        // SAFETY: as above, with the signature of `Batch`.
        batch: unsafe { std::mem::transmute::<*const u8, Batch>(at_batch) },
        size: single.len() + batch.len(),
        _memory: memory,
    })
}

/// Returns the host as a compilation target, which is determined once.
fn host() -> Result<&'static OwnedTargetIsa, NativeError> {
    static HOST: OnceLock<Result<OwnedTargetIsa, String>> = OnceLock::new();
    HOST.get_or_init(target)
        .as_ref()
        .map_err(|reason| NativeError::Host {
            reason: reason.clone(),
        })
}

fn target() -> Result<OwnedTargetIsa, String> {
    // Generated loads and packet descriptions assume little-endian 64-bit registers.
    if !cfg!(all(target_endian = "little", target_pointer_width = "64")) {
        return Err("not a little-endian 64-bit processor".to_owned());
    }
    let mut flags = settings::builder();
    for (name, value) in [
        ("opt_level", "speed"),
        (
            "enable_verifier",
            if cfg!(debug_assertions) {
                "true"
            } else {
                "false"
            },
        ),
        ("is_pic", "false"),
        ("unwind_info", "false"),
        ("use_colocated_libcalls", "false"),
    ] {
        flags.set(name, value).map_err(|error| error.to_string())?;
    }
    let builder = cranelift_native::builder().map_err(str::to_owned)?;
    builder
        .finish(settings::Flags::new(flags))
        .map_err(|error| error.to_string())
}

/// Returns the machine code of the function for one packet, in memory that is not executable.
pub(crate) fn machine_code(program: &Analysed) -> Result<Vec<u8>, NativeError> {
    let isa = host()?;
    translate(isa, [I64, I32, I32, I64], Some(I32), |builder| {
        write_single(builder, program);
    })
}

/// Returns one function's machine code, which is independent of its address.
fn translate(
    isa: &OwnedTargetIsa,
    params: [Type; 4],
    result: Option<Type>,
    write: impl FnOnce(&mut FunctionBuilder<'_>),
) -> Result<Vec<u8>, NativeError> {
    let mut context = Context::new();
    let mut signature = Signature::new(isa.default_call_conv());
    signature.params.extend(params.map(AbiParam::new));
    signature.returns.extend(result.map(AbiParam::new));
    context.func.signature = signature;
    let mut builder_context = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut context.func, &mut builder_context);
    write(&mut builder);
    builder.finalize();
    let compiled = context.compile(&**isa, &mut ControlPlane::default());
    let compiled = compiled.map_err(|error| NativeError::Codegen {
        reason: error.inner.to_string(),
    })?;
    // Generated code calls nothing and has no data outside itself; code with relocations would be
    // wrong.
    if !compiled.buffer.relocs().is_empty() {
        return Err(NativeError::Codegen {
            reason: "the code refers to addresses outside of it".to_owned(),
        });
    }
    Ok(compiled.code_buffer().to_vec())
}

fn write_single(builder: &mut FunctionBuilder<'_>, program: &Analysed) {
    let entry = builder.create_block();
    let exit = builder.create_block();
    let verdict = builder.append_block_param(exit, I32);
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    builder.seal_block(entry);
    let &[data, caplen, len, metadata] = builder.block_params(entry) else {
        unreachable!("four parameters were declared")
    };
    let caplen = builder.ins().uextend(I64, caplen);
    let packet = Packet {
        data,
        caplen,
        len,
        metadata,
    };
    emit(builder, program, packet, exit);
    builder.seal_block(exit);
    builder.switch_to_block(exit);
    builder.ins().return_(&[verdict]);
}

/// Writes the program's code for one packet; it leaves by `exit`.
fn emit(builder: &mut FunctionBuilder<'_>, program: &Analysed, packet: Packet, exit: Block) {
    let parts = (&program.ops[..], &program.facts[..], &program.plan);
    Emitter::new(builder, parts, packet, exit).program();
}

/// Values that change from packet to packet of a batch.
struct Cursors {
    /// Address of the next packet.
    packet: Value,
    /// Address of its verdict.
    verdict: Value,
    /// Address of its metadata and distance to the next, if the program reads metadata.
    metadata: Option<(Value, Value)>,
}

fn write_batch(builder: &mut FunctionBuilder<'_>, program: &Analysed) {
    let [entry, head, exit, finish] = [(); 4].map(|()| builder.create_block());
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    builder.seal_block(entry);
    let &[packets, metadata, verdicts, count] = builder.block_params(entry) else {
        unreachable!("four parameters were declared")
    };
    let bytes = builder.ins().imul_imm(count, PacketRef::SIZE);
    let end = builder.ins().iadd(packets, bytes);
    // Without metadata, its address stays null.
    let [zero, size] = [0, Metadata::SIZE].map(|bytes| builder.ins().iconst(I64, bytes));
    let step = builder.ins().select(metadata, size, zero);
    let asks = |op: &Op| matches!(op, Op::Ancillary { .. } | Op::AncillaryXor);
    let asks_metadata = program.ops.iter().any(asks);
    let mut first = vec![BlockArg::from(packets), BlockArg::from(verdicts)];
    first.extend(asks_metadata.then(|| BlockArg::from(metadata)));
    builder.ins().jump(head, &first);
    let cursors = Cursors {
        packet: builder.append_block_param(head, I64),
        verdict: builder.append_block_param(head, I64),
        metadata: asks_metadata.then(|| (builder.append_block_param(head, I64), step)),
    };
    let verdict = builder.append_block_param(exit, I32);

    builder.switch_to_block(head);
    let packet = read_packet(builder, &cursors);
    emit(builder, program, packet, exit);

    builder.seal_block(exit);
    builder.switch_to_block(exit);
    builder
        .ins()
        .store(MemFlags::trusted(), verdict, cursors.verdict, 0);
    let packet_at = builder.ins().iadd_imm(cursors.packet, PacketRef::SIZE);
    let verdict_at = builder.ins().iadd_imm(cursors.verdict, 4);
    let mut next = vec![BlockArg::from(packet_at), BlockArg::from(verdict_at)];
    if let Some((metadata, step)) = cursors.metadata {
        next.push(BlockArg::from(builder.ins().iadd(metadata, step)));
    }
    let more = builder.ins().icmp(IntCC::NotEqual, packet_at, end);
    builder.ins().brif(more, head, &next, finish, &[]);
    builder.seal_block(head);
    builder.switch_to_block(finish);
    builder.seal_block(finish);
    builder.ins().return_(&[]);
}

fn read_packet(builder: &mut FunctionBuilder<'_>, cursors: &Cursors) -> Packet {
    let flags = MemFlags::trusted();
    let mut field = |kind, offset| builder.ins().load(kind, flags, cursors.packet, offset);
    let data = field(I64, PacketRef::DATA);
    let caplen = field(I32, PacketRef::CAPLEN);
    let len = field(I32, PacketRef::LEN);
    let caplen = builder.ins().uextend(I64, caplen);
    let metadata = match cursors.metadata {
        Some((metadata, _)) => metadata,
        None => builder.ins().iconst(I64, 0),
    };
    Packet {
        data,
        caplen,
        len,
        metadata,
    }
}
