//! Machine code for inspection: program in, bytes and instructions out. Nothing here is executed.

use ringtap_filter::Program;

use crate::code::{Analysed, machine_code};
use crate::error::NativeError;

/// The machine code of a filter's function for one packet, for this processor. Its arguments, in
/// the platform's C convention, are the address of the packet, the captured length, the length on
/// the wire, and the address of the metadata or 0. It returns the number of bytes accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineCode {
    bytes: Vec<u8>,
}

/// One machine instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineInsn<'a> {
    /// Offset from the beginning of the function in bytes; jumps refer to it.
    pub at: usize,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// Its text, with the targets of jumps as offsets. `None` without the feature `disassembler`,
    /// and for bytes that are not an instruction.
    pub text: Option<String>,
}

impl MachineCode {
    /// Translates a program as [`Native::compile`](crate::Native::compile) does, into memory that
    /// is not executable.
    ///
    /// # Errors
    /// The same as [`Native::compile`](crate::Native::compile).
    pub fn of(program: &Program) -> Result<Self, NativeError> {
        let bytes = machine_code(&Analysed::new(program)?)?;
        Ok(Self { bytes })
    }

    /// Returns the code.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the code instruction by instruction. Without the feature `disassembler`, and from
    /// the first byte that is not an instruction (constants follow the code), returns pieces of at
    /// most eight bytes.
    #[must_use]
    pub fn insns(&self) -> Vec<MachineInsn<'_>> {
        let mut insns = decoded(&self.bytes);
        let mut at = insns.last().map_or(0, |last| last.at + last.bytes.len());
        for bytes in self.bytes[at..].chunks(8) {
            let text = None;
            insns.push(MachineInsn { at, bytes, text });
            at += bytes.len();
        }
        insns
    }
}

#[cfg(not(all(
    feature = "disassembler",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
fn decoded(_: &[u8]) -> Vec<MachineInsn<'_>> {
    Vec::new()
}

#[cfg(all(
    feature = "disassembler",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
use with_decoder::decoded;

#[cfg(all(
    feature = "disassembler",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod with_decoder {
    use yaxpeax_arch::{Decoder, Reader, U8Reader};
    #[cfg(target_arch = "aarch64")]
    use yaxpeax_arm::armv8::a64::InstDecoder;
    #[cfg(target_arch = "x86_64")]
    use yaxpeax_x86::amd64::InstDecoder;

    use super::MachineInsn;

    /// Whether a relative jump counts from the end of its instruction; otherwise from its
    /// beginning.
    const FROM_END: bool = cfg!(target_arch = "x86_64");

    /// Returns the instructions before the first byte that is not one.
    pub(super) fn decoded(code: &[u8]) -> Vec<MachineInsn<'_>> {
        let decoder = InstDecoder::default();
        let mut reader = U8Reader::new(code);
        let mut insns = Vec::new();
        let mut at = 0;
        // Constants follow the last return, after the target of every jump.
        let mut farthest = 0;
        while at < code.len() {
            let Ok(insn) = decoder.decode(&mut reader) else {
                break;
            };
            let end = usize::try_from(Reader::<u64, u8>::total_offset(&mut reader));
            let bytes = end.ok().and_then(|end| code.get(at..end));
            let Some(bytes) = bytes.filter(|bytes| !bytes.is_empty()) else {
                break;
            };
            let base = if FROM_END { at + bytes.len() } else { at };
            let (text, target) = with_target(insn.to_string(), base);
            farthest = farthest.max(target.unwrap_or(0));
            let returns = text.starts_with("ret");
            let text = Some(text);
            insns.push(MachineInsn { at, bytes, text });
            at += bytes.len();
            if returns && at > farthest {
                break;
            }
        }
        insns
    }

    /// Returns the text with a relative target (`$+0x1c`) as an offset from the function's
    /// beginning, and the target.
    fn with_target(text: String, base: usize) -> (String, Option<usize>) {
        let Some((before, relative)) = text.split_once('$') else {
            return (text, None);
        };
        let (sign, digits) = relative.split_at(relative.len().min(1));
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        let distance = usize::from_str_radix(digits, 16).ok();
        let target = match sign {
            "+" => distance.and_then(|distance| base.checked_add(distance)),
            "-" => distance.and_then(|distance| base.checked_sub(distance)),
            _ => None,
        };
        match target {
            Some(at) => (format!("{before}{at:x}"), target),
            None => (text, None),
        }
    }
}

#[cfg(test)]
mod tests {
    use ringtap_filter::{CompileOptions, LinkType, Tables, compile};

    use super::*;

    fn code_of(expression: &str) -> MachineCode {
        let options = CompileOptions::new(LinkType::ETHERNET);
        let program = compile(expression, &options, &Tables::new()).expect("a filter");
        MachineCode::of(&program).expect("native code")
    }

    #[test]
    fn instructions_are_the_code_without_gaps() {
        let code = code_of("tcp port 80 or host 10.0.0.1");
        let mut at = 0;
        for insn in code.insns() {
            assert_eq!(insn.at, at);
            assert_eq!(insn.bytes, &code.bytes()[at..at + insn.bytes.len()]);
            at += insn.bytes.len();
        }
        assert_eq!(at, code.bytes().len());
    }

    /// A wrong base of relative jumps would give targets in the middle of instructions.
    #[cfg(all(feature = "disassembler", target_arch = "x86_64"))]
    #[test]
    fn jumps_lead_to_instructions() {
        let code = code_of("tcp port 80 or host 10.0.0.1 or ip6 net 2001:db8::/32");
        let insns = code.insns();
        let text = |insn: &MachineInsn<'_>| insn.text.clone().unwrap_or_default();
        let jumps: Vec<String> = insns
            .iter()
            .map(text)
            .filter(|text| text.starts_with('j'))
            .collect();
        assert!(jumps.len() > 5, "{jumps:?}");
        for jump in jumps {
            let target = jump.split_once(' ').expect("a target").1;
            let target = usize::from_str_radix(target, 16).expect("an offset");
            assert!(insns.iter().any(|insn| insn.at == target), "{jump}");
        }
        let last = insns.iter().rfind(|insn| insn.text.is_some());
        assert_eq!(text(last.expect("instructions")), "ret");
    }
}
