//! The interpreter, for when native code is not worth compiling. [`plain`](super::plain) defines
//! what programs mean; tests compare the interpreter with it.
//!
//! Only packet accesses are checked at run time, because a [`Program`](super::Program) is always
//! valid.

use super::opcode as op;
use super::step::{Decoded, FEW, Far, Machine, WINDOW};
use crate::process::PacketOwner;

/// The metadata that the kernel has about a packet: the values of the Linux ancillary loads
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
    /// The value returned for a load of a random number.
    pub random: u32,
    /// The packet's process, for programs of expressions that ask for it.
    pub process: PacketOwner,
}

impl Ancillary {
    /// Returns the value at `offset` from `SKF_AD_OFF`. Searches of netlink attributes are not
    /// supported: they return 0, as for a packet without netlink content.
    pub(super) fn load(&self, offset: u32, a: u32, x: u32) -> u32 {
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
            offset => self.process.load(offset),
        }
    }
}

impl Decoded {
    #[inline]
    pub(super) fn run(&self, data: &[u8], len: u32) -> u32 {
        if self.needs_far {
            return self.run_far(data, len, None);
        }
        let mut machine = Machine {
            data,
            program: self,
            far: None,
            len,
            memory: [0; FEW],
        };
        match self.steps.split_first() {
            Some((step, rest)) => (step.work)(step, rest, &mut machine, 0, 0),
            None => 0,
        }
    }

    pub(super) fn run_with(&self, data: &[u8], len: u32, ancillary: &Ancillary) -> u32 {
        self.run_far(data, len, Some(ancillary))
    }

    /// Runs one window after the other.
    fn run_far(&self, data: &[u8], len: u32, ancillary: Option<&Ancillary>) -> u32 {
        let mut far = Far {
            ancillary,
            ..Far::default()
        };
        let mut machine = Machine {
            data,
            program: self,
            far: Some(&mut far),
            len,
            memory: [0; FEW],
        };
        let (mut at, mut a, mut x) = (0, 0, 0);
        loop {
            let end = self.steps.len().min(at + WINDOW);
            let Some((step, rest)) = self.steps.get(at..end).and_then(<[_]>::split_first) else {
                return 0;
            };
            if let Some(far) = &mut machine.far {
                far.end = end;
            }
            let accepted = (step.work)(step, rest, &mut machine, a, x);
            match machine.far.as_mut().and_then(|far| far.resume.take()) {
                Some(resume) => (at, a, x) = resume,
                None => return accepted,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::op;
    use crate::program::{Insn, MAX_ROUNDS, Program, plain};

    /// A pseudo-random number generator (xorshift, Marsaglia).
    struct Random(u64);

    impl Random {
        fn below(&mut self, n: u32) -> u32 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            u32::try_from((self.0 >> 16) % u64::from(n)).unwrap()
        }

        fn pick<T: Copy>(&mut self, from: &[T]) -> T {
            from[self.below(u32::try_from(from.len()).unwrap()) as usize]
        }

        /// Makes an instruction with `left` more to come, mostly one that is fused with others.
        fn insn(&mut self, left: u32) -> Insn {
            const ALU: [u16; 10] = [
                op::ADD,
                op::SUB,
                op::MUL,
                op::DIV,
                op::OR,
                op::AND,
                op::LSH,
                op::RSH,
                op::MOD,
                op::XOR,
            ];
            const TESTS: [u16; 4] = [op::JEQ, op::JGT, op::JGE, op::JSET];
            let size = self.pick(&[op::W, op::H, op::B]);
            let k = self.below(20);
            let word = self.below(6);
            match self.below(12) {
                0 => Insn::new(op::LD | size | op::ABS, k),
                1 => Insn::new(op::LD | size | op::IND, k),
                2 => Insn::new(op::LD | op::MEM, word),
                3 => self.pick(&[
                    Insn::new(op::LD | op::LEN, 0),
                    Insn::new(op::LD | op::IMM, k),
                    Insn::new(op::LDX | op::IMM, k),
                    Insn::new(op::LDX | op::LEN, 0),
                    Insn::new(op::LDX | op::MEM, word),
                    Insn::new(op::STX, word),
                    Insn::new(op::MISC | op::TXA, 0),
                    Insn::new(op::ALU | op::NEG, 0),
                ]),
                4 => Insn::new(op::LDX | op::B | op::MSH, k),
                5 => Insn::new(op::ALU | op::K | self.pick(&ALU), 1 + k),
                6 => Insn::new(op::ALU | op::X | self.pick(&ALU), 0),
                7 => Insn::new(op::ST, word),
                8 => Insn::new(op::MISC | op::TAX, 0),
                9 => Insn::new(op::JMP | op::JA, self.below(left + 1)),
                _ => {
                    let operand = self.pick(&[op::K, op::K, op::X]);
                    let code = op::JMP | operand | self.pick(&TESTS);
                    let [jt, jf] = [(); 2].map(|()| {
                        let most = self.pick(&[0, 2, left]).min(left);
                        u8::try_from(self.below(most + 1)).unwrap()
                    });
                    Insn::jump(code, k, jt, jf)
                }
            }
        }

        fn program(&mut self) -> Vec<Insn> {
            const LENGTH: u32 = 24;
            let stores = (0..6).map(|word| Insn::new(op::ST, word));
            let mut insns: Vec<Insn> = stores.collect();
            insns.extend((0..LENGTH).map(|at| self.insn(LENGTH - 1 - at + 3)));
            insns.extend([
                Insn::new(op::RET | op::A, 0),
                Insn::new(op::RET | op::K, 0),
                Insn::new(op::RET | op::K, 96),
                Insn::new(op::RET | op::K, 0),
            ]);
            insns
        }
    }

    #[test]
    fn steps_of_several_instructions_do_what_these_do() {
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let mut accepted = 0;
        for _ in 0..20_000 {
            let insns = random.program();
            let program = Program::new(insns).unwrap();
            for length in [0, 5, 19, 60] {
                let data: Vec<u8> = (0..length)
                    .map(|_| u8::try_from(random.below(20)).unwrap())
                    .collect();
                let verdict = program.run(&data, 60);
                let expected = plain::run(&program, &data, 60, None);
                assert_eq!(verdict, expected, "{program:?} on {data:?}");
                accepted += u32::from(verdict != 0);
            }
        }
        assert!(accepted > 10_000, "{accepted}");
    }

    /// Checks programs that have more instructions than can call each other.
    #[test]
    fn long_programs_run_to_their_end() {
        for count in [253, 254, 255, 256, 257, 510, 511, 512, 60_000_u32] {
            // Stores the length, adds 1 `count` times, half of them after a jump, and adds the stored value,
            // which is in a word of scratch memory outside the fast ones.
            let mut insns: Vec<Insn> = (0..5).map(|word| Insn::new(op::ST, word)).collect();
            insns.extend([Insn::new(op::LDX | op::LEN, 0), Insn::new(op::STX, 5)]);
            let one = Insn::new(op::ALU | op::ADD, 1);
            insns.extend((0..count / 2).map(|_| one));
            insns.push(Insn::new(op::JMP | op::JA, 300));
            insns.extend((0..300).map(|_| Insn::new(op::RET, 0)));
            insns.extend((count / 2..count).map(|_| one));
            insns.extend([
                Insn::new(op::LDX | op::MEM, 5),
                Insn::new(op::ALU | op::ADD | op::X, 0),
                Insn::new(op::RET | op::A, 0),
            ]);
            let program = Program::new(insns).unwrap();
            assert_eq!(program.run(&[], 7), count + 7);
            assert_eq!(plain::run(&program, &[], 7, None), count + 7);
        }
    }

    #[test]
    fn jumps_backwards_are_counted() {
        // Adds 1 until A equals X.
        let program = Program::with_loops(vec![
            Insn::new(op::LDX | op::LEN, 0),
            Insn::new(op::ALU | op::ADD, 1),
            Insn::jump(op::JMP | op::JEQ | op::X, 0, 1, 0),
            Insn::new(op::JMP | op::JA, 0_u32.wrapping_sub(3)),
            Insn::new(op::RET | op::A, 0),
        ])
        .unwrap();
        for (len, accepted) in [
            (1, 1),
            (MAX_ROUNDS + 1, MAX_ROUNDS + 1),
            (MAX_ROUNDS + 2, 0),
        ] {
            assert_eq!(program.run(&[], len), accepted);
            assert_eq!(plain::run(&program, &[], len, None), accepted);
        }
    }
}
