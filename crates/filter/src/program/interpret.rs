//! The interpreter: the reference for what a program means.
//!
//! Every packet access is bounds-checked; nothing else needs a check, because a [`Program`]
//! (super::Program) is valid.

use super::MAX_ROUNDS;
use super::decode::{Decoded, LANES, Op, Step};
use super::opcode as op;

/// What the kernel knows of a packet beside its bytes: the values of the Linux ancillary loads
/// (`SKF_AD_*` of `linux/filter.h`). The VLAN loads need Linux 3.8, the tag protocol 4.0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ancillary {
    /// EtherType of the payload, in host order.
    pub protocol: u16,
    /// `PACKET_HOST` (0) to `PACKET_OUTGOING` (4).
    pub pkttype: u8,
    /// Index of the interface.
    pub ifindex: u32,
    /// Packet mark.
    pub mark: u32,
    /// Receive queue.
    pub queue: u32,
    /// ARP hardware type of the interface.
    pub hatype: u16,
    /// Flow hash.
    pub rxhash: u32,
    /// The CPU that handled the packet.
    pub cpu: u32,
    /// Tag control information of a VLAN tag that was stripped.
    pub vlan_tci: Option<u16>,
    /// Tag protocol identifier of that tag, in host order.
    pub vlan_tpid: u16,
    /// Offset of the payload in bytes.
    pub pay_offset: u32,
    /// What a load of a random number gives.
    pub random: u32,
}

impl Ancillary {
    /// The value at `offset` from `SKF_AD_OFF`. The netlink attribute searches depend on the
    /// packet's netlink content and are not supported: they give 0, as for a packet without.
    fn load(&self, offset: u32, a: u32, x: u32) -> u32 {
        match offset {
            op::SKF_AD_PROTOCOL => u32::from(self.protocol),
            op::SKF_AD_PKTTYPE => u32::from(self.pkttype),
            op::SKF_AD_IFINDEX => self.ifindex,
            op::SKF_AD_MARK => self.mark,
            op::SKF_AD_QUEUE => self.queue,
            op::SKF_AD_HATYPE => u32::from(self.hatype),
            op::SKF_AD_RXHASH => self.rxhash,
            op::SKF_AD_CPU => self.cpu,
            op::SKF_AD_ALU_XOR_X => a ^ x,
            op::SKF_AD_VLAN_TAG => u32::from(self.vlan_tci.unwrap_or(0)),
            op::SKF_AD_VLAN_TAG_PRESENT => u32::from(self.vlan_tci.is_some()),
            op::SKF_AD_PAY_OFFSET => self.pay_offset,
            op::SKF_AD_RANDOM => self.random,
            op::SKF_AD_VLAN_TPID => u32::from(self.vlan_tpid),
            _ => 0,
        }
    }
}

/// Where ancillary values come from: nowhere for a file, the kernel's metadata for a live packet.
trait Metadata {
    fn get(&self, offset: u32, a: u32, x: u32) -> Option<u32>;
}

impl Metadata for () {
    #[inline(always)]
    fn get(&self, _: u32, _: u32, _: u32) -> Option<u32> {
        None
    }
}

impl Metadata for Ancillary {
    #[inline]
    fn get(&self, offset: u32, a: u32, x: u32) -> Option<u32> {
        Some(self.load(offset, a, x))
    }
}

#[inline(always)]
fn word(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at.checked_add(4)?)?.first_chunk()?;
    Some(u32::from_be_bytes(*bytes))
}

#[inline(always)]
fn half(data: &[u8], at: usize) -> Option<u32> {
    let bytes = data.get(at..at.checked_add(2)?)?.first_chunk()?;
    Some(u32::from(u16::from_be_bytes(*bytes)))
}

#[inline(always)]
fn byte(data: &[u8], at: usize) -> Option<u32> {
    data.get(at).map(|&b| u32::from(b))
}

/// X plus a constant as an offset: no wrap-around, which a packet cannot be long enough for.
#[inline(always)]
fn indirect(x: u32, k: u32) -> usize {
    (x as usize).saturating_add(k as usize)
}

impl Decoded {
    /// Whether a number is among the constants of a list.
    #[inline(always)]
    fn has(&self, first: u32, count: u32, number: u32) -> bool {
        let list = self.constants.get(first as usize..);
        let any = |group: &[u32; LANES]| group.iter().fold(false, |any, &n| any | (n == number));
        list.is_some_and(|list| list.iter().take(count as usize).any(any))
    }

    #[inline]
    pub(super) fn run(&self, data: &[u8], len: u32) -> u32 {
        // Clearing memory that is not used would be a good part of a short program's time.
        let accepted = match self.uses_memory {
            false => execute(self, data, len, &(), &mut []),
            true => execute(self, data, len, &(), &mut [0; op::MEMWORDS as usize]),
        };
        accepted.unwrap_or(0)
    }

    pub(super) fn run_with(&self, data: &[u8], len: u32, ancillary: &Ancillary) -> u32 {
        let memory = &mut [0; op::MEMWORDS as usize];
        execute(self, data, len, ancillary, memory).unwrap_or(0)
    }
}

/// Executes to the return. `None` where a load or a division rejects the packet.
#[inline(always)]
fn execute<M: Metadata>(
    program: &Decoded,
    data: &[u8],
    len: u32,
    metadata: &M,
    memory: &mut [u32],
) -> Option<u32> {
    let (mut a, mut x) = (0_u32, 0_u32);
    let mut at = 0_usize;
    let mut rounds = 0;
    loop {
        let step = program.steps.get(at)?;
        let k = step.k;
        let branch = |taken: bool| usize::from(choose(taken, step));
        at += 1;
        match step.op {
            Op::LdWJeq => {
                a = word(data, k as usize)?;
                at = branch(a == step.compare);
            }
            Op::LdWJgt => {
                a = word(data, k as usize)?;
                at = branch(a > step.compare);
            }
            Op::LdWJge => {
                a = word(data, k as usize)?;
                at = branch(a >= step.compare);
            }
            Op::LdWJset => {
                a = word(data, k as usize)?;
                at = branch(a & step.compare != 0);
            }
            Op::LdHJeq => {
                a = half(data, k as usize)?;
                at = branch(a == step.compare);
            }
            Op::LdHJgt => {
                a = half(data, k as usize)?;
                at = branch(a > step.compare);
            }
            Op::LdHJge => {
                a = half(data, k as usize)?;
                at = branch(a >= step.compare);
            }
            Op::LdHJset => {
                a = half(data, k as usize)?;
                at = branch(a & step.compare != 0);
            }
            Op::LdBJeq => {
                a = byte(data, k as usize)?;
                at = branch(a == step.compare);
            }
            Op::LdBJgt => {
                a = byte(data, k as usize)?;
                at = branch(a > step.compare);
            }
            Op::LdBJge => {
                a = byte(data, k as usize)?;
                at = branch(a >= step.compare);
            }
            Op::LdBJset => {
                a = byte(data, k as usize)?;
                at = branch(a & step.compare != 0);
            }
            Op::LdWIndJeq => {
                a = word(data, indirect(x, k))?;
                at = branch(a == step.compare);
            }
            Op::LdWIndJgt => {
                a = word(data, indirect(x, k))?;
                at = branch(a > step.compare);
            }
            Op::LdWIndJge => {
                a = word(data, indirect(x, k))?;
                at = branch(a >= step.compare);
            }
            Op::LdWIndJset => {
                a = word(data, indirect(x, k))?;
                at = branch(a & step.compare != 0);
            }
            Op::LdHIndJeq => {
                a = half(data, indirect(x, k))?;
                at = branch(a == step.compare);
            }
            Op::LdHIndJgt => {
                a = half(data, indirect(x, k))?;
                at = branch(a > step.compare);
            }
            Op::LdHIndJge => {
                a = half(data, indirect(x, k))?;
                at = branch(a >= step.compare);
            }
            Op::LdHIndJset => {
                a = half(data, indirect(x, k))?;
                at = branch(a & step.compare != 0);
            }
            Op::LdBIndJeq => {
                a = byte(data, indirect(x, k))?;
                at = branch(a == step.compare);
            }
            Op::LdBIndJgt => {
                a = byte(data, indirect(x, k))?;
                at = branch(a > step.compare);
            }
            Op::LdBIndJge => {
                a = byte(data, indirect(x, k))?;
                at = branch(a >= step.compare);
            }
            Op::LdBIndJset => {
                a = byte(data, indirect(x, k))?;
                at = branch(a & step.compare != 0);
            }
            Op::LdLenJgt => {
                a = len;
                at = branch(a > step.compare);
            }
            Op::LdLenJge => {
                a = len;
                at = branch(a >= step.compare);
            }
            Op::LdWAndJeq => {
                a = word(data, k as usize)? & u32::from(step.second);
                at = branch(a == step.compare);
            }
            Op::LdHAndJeq => {
                a = half(data, k as usize)? & u32::from(step.second);
                at = branch(a == step.compare);
            }
            Op::LdBAndJeq => {
                a = byte(data, k as usize)? & u32::from(step.second);
                at = branch(a == step.compare);
            }
            Op::LdBIndAndJeq => {
                a = byte(data, indirect(x, k))? & u32::from(step.second);
                at = branch(a == step.compare);
            }
            Op::AndJeq => {
                a &= k;
                at = branch(a == step.compare);
            }
            Op::LdBAnd => {
                a = byte(data, k as usize)? & step.compare;
                at += 1;
            }
            Op::LdBIndAnd => {
                a = byte(data, indirect(x, k))? & step.compare;
                at += 1;
            }
            Op::AndLsh => {
                a = (a & k) << (step.compare & 31);
                at += 1;
            }
            Op::AndRsh => {
                a = (a & k) >> (step.compare & 31);
                at += 1;
            }
            Op::MshLdWInd => {
                x = (byte(data, k as usize)? & 0xf) << 2;
                a = word(data, indirect(x, step.compare))?;
                at += 1;
            }
            Op::MshLdHInd => {
                x = (byte(data, k as usize)? & 0xf) << 2;
                a = half(data, indirect(x, step.compare))?;
                at += 1;
            }
            Op::MshLdBInd => {
                x = (byte(data, k as usize)? & 0xf) << 2;
                a = byte(data, indirect(x, step.compare))?;
                at += 1;
            }
            Op::LdxMemAddX => {
                x = *memory.get(k as usize)?;
                a = a.wrapping_add(x);
                at += 1;
            }
            Op::LdxMemSubX => {
                x = *memory.get(k as usize)?;
                a = a.wrapping_sub(x);
                at += 1;
            }
            Op::LshTax => {
                a <<= k & 31;
                x = a;
                at += 1;
            }
            Op::RshTax => {
                a >>= k & 31;
                x = a;
                at += 1;
            }
            Op::LshSt => {
                a <<= k & 31;
                *memory.get_mut(step.compare as usize)? = a;
                at += 1;
            }
            Op::RshSt => {
                a >>= k & 31;
                *memory.get_mut(step.compare as usize)? = a;
                at += 1;
            }
            Op::MshLdHIndJeq => {
                x = (byte(data, k as usize)? & 0xf) << 2;
                a = half(data, indirect(x, step.second.into()))?;
                at = branch(a == step.compare);
            }
            Op::LdWJeqAny => {
                a = word(data, k as usize)?;
                at = branch(program.has(step.compare, step.second.into(), a));
            }
            Op::LdHJeqAny => {
                a = half(data, k as usize)?;
                at = branch(program.has(step.compare, step.second.into(), a));
            }
            Op::LdBJeqAny => {
                a = byte(data, k as usize)?;
                at = branch(program.has(step.compare, step.second.into(), a));
            }
            Op::LdHIndJeqAny => {
                a = half(data, indirect(x, k))?;
                at = branch(program.has(step.compare, step.second.into(), a));
            }
            Op::JeqAny => at = branch(program.has(k, step.compare, a)),
            Op::RetK => return Some(k),
            Op::RetA => return Some(a),
            Op::JeqK => at = branch(a == k),
            Op::JgtK => at = branch(a > k),
            Op::JgeK => at = branch(a >= k),
            Op::JsetK => at = branch(a & k != 0),
            Op::JeqX => at = branch(a == x),
            Op::JgtX => at = branch(a > x),
            Op::JgeX => at = branch(a >= x),
            Op::JsetX => at = branch(a & x != 0),
            Op::Ja => at = usize::from(step.jt),
            Op::JaBack => {
                rounds += 1;
                if rounds > MAX_ROUNDS {
                    return None;
                }
                at = usize::from(step.jt);
            }
            Op::LdW => a = word(data, k as usize)?,
            Op::LdH => a = half(data, k as usize)?,
            Op::LdB => a = byte(data, k as usize)?,
            Op::LdWInd => a = word(data, indirect(x, k))?,
            Op::LdHInd => a = half(data, indirect(x, k))?,
            Op::LdBInd => a = byte(data, indirect(x, k))?,
            Op::LdAncillary => a = metadata.get(k - op::SKF_AD_OFF, a, x)?,
            Op::LdImm => a = k,
            Op::LdLen => a = len,
            Op::LdMem => a = *memory.get(k as usize)?,
            Op::LdxImm => x = k,
            Op::LdxLen => x = len,
            Op::LdxMem => x = *memory.get(k as usize)?,
            Op::LdxMsh => x = (byte(data, k as usize)? & 0xf) << 2,
            Op::St => *memory.get_mut(k as usize)? = a,
            Op::Stx => *memory.get_mut(k as usize)? = x,
            Op::AddK => a = a.wrapping_add(k),
            Op::AddX => a = a.wrapping_add(x),
            Op::SubK => a = a.wrapping_sub(k),
            Op::SubX => a = a.wrapping_sub(x),
            Op::MulK => a = a.wrapping_mul(k),
            Op::MulX => a = a.wrapping_mul(x),
            Op::DivK => a = a.checked_div(k)?,
            Op::DivX => a = a.checked_div(x)?,
            Op::ModK => a = a.checked_rem(k)?,
            Op::ModX => a = a.checked_rem(x)?,
            Op::OrK => a |= k,
            Op::OrX => a |= x,
            Op::AndK => a &= k,
            Op::AndX => a &= x,
            Op::XorK => a ^= k,
            Op::XorX => a ^= x,
            Op::LshK => a = a.checked_shl(k).unwrap_or(0),
            Op::LshX => a = a.checked_shl(x).unwrap_or(0),
            Op::RshK => a = a.checked_shr(k).unwrap_or(0),
            Op::RshX => a = a.checked_shr(x).unwrap_or(0),
            Op::Neg => a = a.wrapping_neg(),
            Op::Tax => x = a,
            Op::Txa => a = x,
        }
    }
}

/// Where a conditional jump leads. The empty cold function keeps the compiler from turning this
/// into a conditional move: the next step would then wait for the comparison, whereas a predicted
/// branch lets the processor go ahead.
#[inline(always)]
fn choose(taken: bool, step: &Step) -> u16 {
    if taken {
        step.jt
    } else {
        rather_not();
        step.jf
    }
}

#[cold]
#[inline]
fn rather_not() {}
