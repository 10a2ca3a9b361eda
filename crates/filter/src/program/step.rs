//! What the interpreter executes: steps that each do the work of several instructions.
//!
//! A step computes one value, from packet bytes or from registers, shifts and masks it, puts it into
//! a register, and may test it. A, X, the words of scratch memory, the packet's length and the number
//! 0 are all registers, so that one kind of step serves every operand; the interpreter goes through
//! nearly every program without a jump by table, which is what costs most in interpreters.

/// Registers, as numbers in a step.
pub(super) mod reg {
    /// Always 0.
    pub(crate) const ZERO: u8 = 0;
    /// The packet's length on the wire.
    pub(crate) const LEN: u8 = 1;
    pub(crate) const A: u8 = 2;
    pub(crate) const X: u8 = 3;
    /// Never read.
    pub(crate) const NOWHERE: u8 = 4;
    /// The first word of scratch memory.
    pub(crate) const MEMORY: u8 = 5;
    /// How many there are.
    pub(crate) const COUNT: usize = 21;
}

/// Registers of programs without scratch memory, and of all: powers of two, so that no number needs a
/// check.
pub(super) const FEW: usize = 8;
pub(super) const ALL: usize = 32;

/// Constants that are compared at once.
pub(super) const GROUP: usize = 4;

/// What a step does, as bits.
pub(super) mod does {
    /// The value is the four packet bytes at register `right` plus `k`, of which `shift` takes away
    /// those that were not asked for; else the sum of two registers and `k`.
    pub(crate) const LOAD: u8 = 1;
    /// Another operation than a sum: `op`.
    pub(crate) const COMPUTE: u8 = 2;
    /// Goes on to `yes` where the value less `from` is at most `width`.
    pub(crate) const TEST: u8 = 4;
    /// Goes on to `yes` where the value is `from` or `width`.
    pub(crate) const TEST_TWO: u8 = 8;
    /// Goes on to `yes` where the value is in one of the program's `width` groups of constants that
    /// begin at index `from`.
    pub(crate) const TEST_LIST: u8 = 16;
    pub(crate) const COMPUTE_AND_TEST: u8 = COMPUTE | TEST;
    pub(crate) const ANY_TEST: u8 = TEST | TEST_TWO | TEST_LIST;
}

/// Operations on register `left` and on register `right` plus `k`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Op {
    Subtract,
    Multiply,
    /// Rejects the packet where the divisor is 0.
    Divide,
    Remainder,
    Or,
    And,
    Xor,
    ShiftLeft,
    ShiftRight,
    /// 1 or 0.
    Greater,
    GreaterEqual,
    /// The packet's metadata, by `SKF_AD_` number `k`.
    Ancillary,
    /// Ends the program with the sum.
    Return,
    /// A jump backwards, of which only so many are made.
    Back,
}

/// All shapes of steps. Where a test is not true, and where there is none, the next step comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A word, a half or a byte of the packet into A, at a constant offset or at X; whether it is in a
    /// range.
    Word,
    Half,
    Byte,
    WordAtX,
    HalfAtX,
    ByteAtX,
    /// The same of what is shifted and masked.
    Part,
    PartAtX,
    /// The same at any register.
    PartAt,
    /// The length of the IPv4 header at `header` into X, then the same at X.
    Behind,
    BehindTwo,
    BehindList,
    /// The packet's length into A, and whether it is in a range.
    Length,
    /// Whether A is in a range.
    A,
    /// Packet bytes into A, shifted and masked; whether they are one of two numbers.
    Two,
    TwoAtX,
    /// Whether A is one of two numbers.
    TwoA,
    /// The same for one in a list.
    List,
    ListAtX,
    ListA,
    /// Packet bytes into a register, shifted and masked; nothing is tested.
    LoadA,
    LoadAAtX,
    LoadX,
    Load,
    /// Operations on registers and a number; nothing is shifted or masked.
    Sum,
    Subtract,
    Multiply,
    Xor,
    /// Goes on to `yes`, whatever it be.
    Jump,
    /// Ends the program with `k`.
    Return,
    /// The rest.
    Any,
}

/// One step.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Step {
    pub(super) shape: Shape,
    pub(super) does: u8,
    pub(super) op: Op,
    /// Bytes of a load.
    pub(super) size: u8,
    pub(super) left: u8,
    pub(super) right: u8,
    pub(super) k: u32,
    /// The value is shifted to the right by so many bits, then masked.
    pub(super) shift: u8,
    pub(super) mask: u32,
    /// The register for it.
    pub(super) to: u8,
    pub(super) from: u32,
    pub(super) width: u32,
    /// A step, counted from the first; before steps are laid out, the instruction where it goes on.
    pub(super) yes: u32,
    /// Where an IPv4 header is whose length is looked for first; before steps are laid out, the
    /// instruction where it goes on if its test is not true.
    pub(super) header: u16,
    /// Whether it is the last of a stretch of instructions.
    pub(super) is_last: bool,
}

impl Step {
    /// The sum of two registers and a number.
    pub(super) const fn sum(to: u8, left: u8, right: u8, k: u32) -> Self {
        Self {
            shape: Shape::Any,
            does: 0,
            op: Op::Return,
            size: 0,
            left,
            right,
            k,
            shift: 0,
            mask: u32::MAX,
            to,
            from: 0,
            width: 0,
            yes: 0,
            header: 0,
            is_last: false,
        }
    }

    /// Another operation.
    pub(super) const fn compute(op: Op, to: u8, left: u8, right: u8, k: u32) -> Self {
        Self {
            does: does::COMPUTE,
            op,
            ..Self::sum(to, left, right, k)
        }
    }

    /// `size` packet bytes at a register plus `k`.
    pub(super) const fn load(to: u8, size: u8, base: u8, k: u32) -> Self {
        Self {
            does: does::LOAD,
            size,
            shift: 32 - 8 * size,
            ..Self::sum(to, reg::ZERO, base, k)
        }
    }

    pub(super) const fn tests(&self) -> bool {
        self.does & does::ANY_TEST != 0
    }

    pub(super) const fn loads(&self) -> bool {
        self.does & does::LOAD != 0
    }

    pub(super) const fn computes(&self) -> bool {
        self.does & does::COMPUTE != 0
    }

    /// Whether it is the value of one register, unchanged.
    pub(super) const fn copies(&self) -> bool {
        self.does == 0
            && self.right == reg::ZERO
            && self.k == 0
            && self.shift == 0
            && self.mask == u32::MAX
    }

    /// Whether it has an effect beside its value: it can reject the packet or end the program.
    pub(super) const fn decides(&self) -> bool {
        let fails = matches!(
            self.op,
            Op::Divide | Op::Remainder | Op::Ancillary | Op::Return | Op::Back
        );
        self.tests() || self.loads() || self.computes() && fails
    }

    /// The registers that it reads, as bits.
    pub(super) fn reads(&self) -> u32 {
        match self.op {
            Op::Ancillary if self.computes() => bit(reg::A) | bit(reg::X),
            _ => bit(self.left) | bit(self.right),
        }
    }

    /// The shape of a step that is as it will be.
    pub(super) fn shape_of(&self) -> Shape {
        const LOAD_AND_TEST: u8 = does::LOAD | does::TEST;
        const LOAD_AND_TWO: u8 = does::LOAD | does::TEST_TWO;
        const LOAD_AND_LIST: u8 = does::LOAD | does::TEST_LIST;
        const TO_A: (u8, u8) = (reg::ZERO, reg::A);
        const X_TO_A: (u8, u8) = (reg::X, reg::A);
        let shift = if self.loads() { 32 - 8 * self.size } else { 0 };
        let is_whole = (self.shift, self.mask) == (shift, u32::MAX);
        let is_a = (self.left, self.right, self.k) == (reg::A, reg::ZERO, 0)
            && is_whole
            && matches!(self.to, reg::NOWHERE | reg::A);
        match (self.does, (self.right, self.to)) {
            (LOAD_AND_TEST, TO_A) if is_whole => match self.size {
                4 => Shape::Word,
                2 => Shape::Half,
                _ => Shape::Byte,
            },
            (LOAD_AND_TEST, X_TO_A) if is_whole => match self.size {
                4 => Shape::WordAtX,
                2 => Shape::HalfAtX,
                _ => Shape::ByteAtX,
            },
            (LOAD_AND_TEST, TO_A) => Shape::Part,
            (LOAD_AND_TEST, X_TO_A) => Shape::PartAtX,
            (LOAD_AND_TEST, (_, reg::A)) => Shape::PartAt,
            (LOAD_AND_TWO, TO_A) => Shape::Two,
            (LOAD_AND_TWO, X_TO_A) => Shape::TwoAtX,
            (LOAD_AND_LIST, TO_A) => Shape::List,
            (LOAD_AND_LIST, X_TO_A) => Shape::ListAtX,
            (does::TEST, _) if is_a => Shape::A,
            (does::TEST, (reg::ZERO, reg::A))
                if is_whole && (self.left, self.k) == (reg::LEN, 0) =>
            {
                Shape::Length
            }
            (does::TEST_TWO, _) if is_a => Shape::TwoA,
            (does::TEST_LIST, _) if is_a => Shape::ListA,
            (does::LOAD, TO_A) => Shape::LoadA,
            (does::LOAD, X_TO_A) => Shape::LoadAAtX,
            (does::LOAD, (reg::ZERO, reg::X)) => Shape::LoadX,
            (does::LOAD, _) => Shape::Load,
            (0 | does::TEST, _) if is_whole => Shape::Sum,
            (does::COMPUTE | does::COMPUTE_AND_TEST, _) if is_whole => match self.op {
                Op::Subtract => Shape::Subtract,
                Op::Multiply => Shape::Multiply,
                Op::Xor => Shape::Xor,
                _ => Shape::Any,
            },
            _ => Shape::Any,
        }
    }

    /// This step and one that comes before it, on every way, as one: the length of an IPv4 header into X.
    pub(super) fn joined(&self, header: &Self) -> Option<Self> {
        let is_length = header.shape == Shape::LoadX
            && (header.size, header.shift, header.mask) == (1, 22, 0x3c);
        let at = u16::try_from(header.k).ok().filter(|_| is_length)?;
        let shape = match self.shape {
            Shape::WordAtX | Shape::HalfAtX | Shape::ByteAtX | Shape::PartAtX => Shape::Behind,
            Shape::TwoAtX => Shape::BehindTwo,
            Shape::ListAtX => Shape::BehindList,
            _ => return None,
        };
        Some(Self {
            shape,
            header: at,
            ..*self
        })
    }

    /// What comes behind a step that leads elsewhere than to the next where its test is not true.
    pub(super) const fn jump() -> Self {
        Self {
            shape: Shape::Jump,
            ..Self::sum(reg::NOWHERE, reg::ZERO, reg::ZERO, 0)
        }
    }

    /// The end of the program with a number.
    pub(super) const fn returns(k: u32) -> Self {
        Self {
            shape: Shape::Return,
            ..Self::sum(reg::NOWHERE, reg::ZERO, reg::ZERO, k)
        }
    }

    /// Adds a mask to the value.
    pub(super) fn and(&mut self, mask: u32) {
        self.mask &= mask;
    }

    /// Shifts the value to the right, where the step can.
    pub(super) fn shift_right(&mut self, bits: u32) -> bool {
        let shift = u32::from(self.shift) + bits;
        let fits = shift < 32;
        if fits {
            self.shift = shift.to_le_bytes()[0];
            self.mask >>= bits;
        }
        fits
    }

    /// Shifts the value to the left, where that is to shift it less to the right.
    pub(super) fn shift_left(&mut self, bits: u32) -> bool {
        let fits = bits <= u32::from(self.shift);
        if fits {
            // What the lesser shift leaves below and above was not there.
            let whole = u32::MAX >> self.shift;
            self.shift -= bits.to_le_bytes()[0];
            self.mask = (self.mask & whole) << bits;
        }
        fits
    }
}

/// The bit of a register.
pub(super) const fn bit(register: u8) -> u32 {
    1 << register
}

/// The executable form of a valid program.
#[derive(Clone, Debug)]
pub(super) struct Decoded {
    pub(super) steps: Vec<Step>,
    /// The constants of [`does::TEST_LIST`]. In the last group of a list, some come several times.
    pub(super) constants: Vec<[u32; GROUP]>,
    /// Whether the program has scratch memory at all.
    pub(super) uses_memory: bool,
}
