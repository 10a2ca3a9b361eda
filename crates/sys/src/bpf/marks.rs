//! Names for parts of a program, which the kernel keeps through verifier and JIT. With them, an
//! address in native code can be assigned to the part that it belongs to.
//!
//! The kernel supports lines of source code for this (`line_info` of `BPF_PROG_LOAD`,
//! Documentation/bpf/btf.rst): each part is passed as one line whose text is the name.

use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};

use super::abi;
use super::attribute::{address, address_mut, fd_number, size, u32_at, u64_at};
use super::error::{Error, Result};
use super::kernel::{Kernel, Request};

const MAGIC: u16 = 0xeb9f;
const VERSION: u8 = 1;
const HEADER: u32 = 24;
/// Kinds of type, shifted to their place in a type's word.
const KIND_INT: u32 = 1 << 24;
const KIND_ARRAY: u32 = 3 << 24;
const KIND_STRUCT: u32 = 4 << 24;
const KIND_FUNC: u32 = 12 << 24;
const KIND_FUNC_PROTO: u32 = 13 << 24;
/// A signed integer of 32 bits.
const INT_ENCODING: u32 = 1 << 24 | 32;
const INT_BYTES: u32 = 4;
/// An unsigned integer of 64 bits.
const LONG_ENCODING: u32 = 64;
const LONG_BYTES: u32 = 8;
/// IDs of the types: they count from 1.
const INT: u32 = 1;
const PROTO: u32 = 2;
const FUNCTION: u32 = 3;
/// Those of a map's values.
const LONG: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
/// `struct bpf_func_info` and `struct bpf_line_info`.
const FUNCTION_BYTES: u32 = 8;
const LINE_BYTES: u32 = 16;
/// More lines than any program of ringtap has.
const LINES_MAX: u32 = 4096;

/// A part of a program's native code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativePart {
    /// Its addresses in the kernel.
    pub addresses: Range<u64>,
    /// Its name.
    pub name: &'static str,
}

/// Names that were loaded into the kernel.
#[derive(Debug)]
pub(super) struct Marks {
    types: OwnedFd,
    functions: [[u32; 2]; 1],
    lines: Vec<[u32; 4]>,
    names: Vec<(u32, &'static str)>,
}

impl Marks {
    /// Loads names and their places into the kernel.
    pub(super) fn load(kernel: &Kernel, marks: &[(usize, &'static str)]) -> Result<Self> {
        let mut strings = Strings::default();
        let file = strings.add("ringtap");
        let mut lines = Vec::with_capacity(marks.len());
        let mut names = Vec::new();
        for (number, &(word, name)) in marks.iter().enumerate() {
            let text = strings.add(name);
            names.push((text, name));
            // The line number is in the upper 22 bits; two lines in a row must differ.
            lines.push([
                size_of_index(word),
                file,
                text,
                (size_of_index(number) + 1) << 10,
            ]);
        }
        let types = types(&mut strings);
        Ok(Self {
            types: load(kernel, &blob(&types, &strings))?,
            functions: [[0, FUNCTION]],
            lines,
            names,
        })
    }

    /// Adds the names to the attribute of a program's load.
    pub(super) fn describe(&self, attribute: &mut abi::ProgramLoad) {
        attribute.types_fd = fd_number(&self.types);
        attribute.function_size = FUNCTION_BYTES;
        attribute.functions = address(&self.functions);
        attribute.function_count = size(self.functions.len());
        attribute.line_size = LINE_BYTES;
        attribute.lines = address(&self.lines);
        attribute.line_count = size(self.lines.len());
    }

    pub(super) fn names(&self) -> Vec<(u32, &'static str)> {
        self.names.clone()
    }
}

/// The types of a map's keys and values, in the kernel: a number of 32 bits, and words of 64 bits.
#[derive(Debug)]
pub(super) struct ValueTypes(OwnedFd);

impl ValueTypes {
    /// Loads the types of a map with values of that many bytes, a multiple of 8.
    pub(super) fn load(kernel: &Kernel, value_size: u32) -> Result<Self> {
        let mut strings = Strings::default();
        let types = [
            [strings.add("int"), KIND_INT, INT_BYTES].as_slice(),
            &[INT_ENCODING],
            &[strings.add("long"), KIND_INT, LONG_BYTES],
            &[LONG_ENCODING],
            // The element, the index and the number of elements.
            &[0, KIND_ARRAY, 0, LONG, INT, value_size / LONG_BYTES],
            // A structure with that array as its only member: values must be named.
            &[strings.add("ringtap_owner"), KIND_STRUCT | 1, value_size],
            &[strings.add("words"), ARRAY, 0],
        ]
        .concat();
        load(kernel, &blob(&types, &strings)).map(Self)
    }

    /// Adds the types to the attribute of a map's creation.
    pub(super) fn describe(&self, attribute: &mut abi::MapCreate) {
        attribute.types_fd = fd_number(&self.0);
        attribute.key_type = INT;
        attribute.value_type = STRUCT;
    }
}

/// Loads types into the kernel.
fn load(kernel: &Kernel, blob: &[u8]) -> Result<OwnedFd> {
    let mut attribute = abi::BtfLoad {
        types: address(blob),
        types_size: size(blob.len()),
        ..Default::default()
    };
    // SAFETY: the blob is read within its stated size; there is no log. A load makes a descriptor.
    let answer = unsafe { kernel.open(abi::BTF_LOAD, &Request::Types, &mut attribute) };
    answer.map_err(|source| Error::call("bpf(BPF_BTF_LOAD)", "", source, None))
}

fn size_of_index(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// A table of strings, each with a terminating zero; the first is empty.
struct Strings(Vec<u8>);

impl Default for Strings {
    fn default() -> Self {
        Self(vec![0])
    }
}

impl Strings {
    fn add(&mut self, text: &str) -> u32 {
        let at = size(self.0.len());
        self.0.extend(text.bytes());
        self.0.push(0);
        at
    }
}

/// Returns the types of a function `int ringtap(void)`, and adds their strings.
fn types(strings: &mut Strings) -> Vec<u32> {
    let int = strings.add("int");
    let function = strings.add("ringtap");
    [
        [int, KIND_INT, INT_BYTES].as_slice(),
        &[INT_ENCODING],
        &[0, KIND_FUNC_PROTO, INT],
        &[function, KIND_FUNC, PROTO],
    ]
    .concat()
}

/// Returns types and strings in the kernel's format.
fn blob(types: &[u32], strings: &Strings) -> Vec<u8> {
    let types_len = size(types.len() * 4);
    let head = [HEADER, 0, types_len, types_len, size(strings.0.len())];
    let mut blob = MAGIC.to_ne_bytes().to_vec();
    blob.extend([VERSION, 0]);
    blob.extend(head.iter().chain(types).flat_map(|word| word.to_ne_bytes()));
    blob.extend(&strings.0);
    blob
}

/// Returns the addresses of a program's parts; one part for the whole program if it has no names.
pub(super) fn native_parts(
    kernel: &Kernel,
    fd: BorrowedFd<'_>,
    context: &str,
    names: &[(u32, &'static str)],
) -> Result<Vec<NativePart>> {
    let mut lines = vec![[0_u32; 4]; names.len()];
    let mut natives = vec![0_u64; names.len()];
    let (mut start, mut length) = ([0_u64; 1], [0_u32; 1]);
    let mut info = [0_u8; abi::PROGRAM_INFO_SIZE];
    let count = size(names.len()).min(LINES_MAX);
    let mut put = |at: usize, bytes: &[u8]| info[at..at + bytes.len()].copy_from_slice(bytes);
    put(abi::PROGRAM_INFO_LINE_COUNT, &count.to_ne_bytes());
    put(abi::PROGRAM_INFO_NATIVE_LINE_COUNT, &count.to_ne_bytes());
    put(abi::PROGRAM_INFO_LINE_SIZE, &LINE_BYTES.to_ne_bytes());
    put(abi::PROGRAM_INFO_NATIVE_LINE_SIZE, &8_u32.to_ne_bytes());
    put(
        abi::PROGRAM_INFO_LINES,
        &address_mut(&mut lines).to_ne_bytes(),
    );
    put(
        abi::PROGRAM_INFO_NATIVE_LINES,
        &address_mut(&mut natives).to_ne_bytes(),
    );
    put(abi::PROGRAM_INFO_SYMBOL_COUNT, &1_u32.to_ne_bytes());
    put(abi::PROGRAM_INFO_LENGTH_COUNT, &1_u32.to_ne_bytes());
    put(
        abi::PROGRAM_INFO_SYMBOLS,
        &address_mut(&mut start).to_ne_bytes(),
    );
    put(
        abi::PROGRAM_INFO_LENGTHS,
        &address_mut(&mut length).to_ne_bytes(),
    );
    let mut attribute = abi::Info {
        fd: fd_number(&fd),
        info_size: size(info.len()),
        info: address_mut(&mut info),
    };
    // SAFETY: the kernel writes within `info_size` bytes of the buffer; the four tables that it
    // points to have room for the counts stated beside them, and live until the call returns.
    let answer = unsafe { kernel.call(abi::OBJ_GET_INFO_BY_FD, &Request::Info, &mut attribute) };
    answer.map_err(|source| Error::call("bpf(BPF_OBJ_GET_INFO_BY_FD)", context, source, None))?;
    let length = u64::from(length[0]).max(u32_at(&info, abi::PROGRAM_INFO_NATIVE_SIZE).into());
    if start[0] == 0 || length == 0 {
        return Ok(Vec::new());
    }
    // Both tables lack lines whose code the verifier removed.
    let known = u32_at(&info, abi::PROGRAM_INFO_LINE_COUNT)
        .min(u32_at(&info, abi::PROGRAM_INFO_NATIVE_LINE_COUNT))
        .min(count);
    let has_lines = u64_at(&info, abi::PROGRAM_INFO_NATIVE_LINES) != 0;
    let known = if has_lines { known as usize } else { 0 };
    let starts = natives.iter().zip(&lines).take(known).map(|(&at, line)| {
        let name = names.iter().find(|(text, _)| *text == line[2]);
        (at, name.map_or("", |&(_, name)| name))
    });
    Ok(stretches(start[0]..start[0] + length, starts.collect()))
}

/// Divides a program's addresses at the beginnings of parts.
fn stretches(whole: Range<u64>, mut starts: Vec<(u64, &'static str)>) -> Vec<NativePart> {
    starts.retain(|(at, _)| whole.contains(at));
    starts.sort_by_key(|&(at, _)| at);
    if starts.first().is_none_or(|&(at, _)| at != whole.start) {
        // The code that the JIT puts before the first instruction belongs to the first part.
        let first = starts.first().map_or("", |&(_, name)| name);
        starts.insert(0, (whole.start, first));
    }
    let ends = starts.iter().skip(1).map(|&(at, _)| at);
    let ends: Vec<_> = ends.chain([whole.end]).collect();
    let parts = starts.iter().zip(ends).filter(|((at, _), end)| at < end);
    parts
        .map(|(&(at, name), end)| NativePart {
            addresses: at..end,
            name,
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_cover_the_program() {
        let part = |addresses, name| NativePart { addresses, name };
        assert_eq!(
            stretches(100..200, vec![(150, "b"), (110, "a"), (300, "outside")]),
            [
                part(100..110, "a"),
                part(110..150, "a"),
                part(150..200, "b")
            ]
        );
        assert_eq!(stretches(100..200, Vec::new()), [part(100..200, "")]);
    }
}
