//! The kernel's own types (BTF), as far as its functions are called by their number there.
//!
//! Source: Documentation/bpf/btf.rst.

use std::io;

use crate::Error;

/// The types of the running kernel.
const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";
const MAGIC: u16 = 0xeb9f;
/// Bytes of the header up to the lengths of both sections, and of a type without what its kind adds.
const HEADER: usize = 24;
const TYPE: usize = 12;
const KIND_FUNC: u32 = 12;

/// The number of a kernel function that programs may call, by its name; `None` where the kernel has
/// no such function, or tells nothing of its types. Functions of modules are not found.
///
/// # Errors
/// The types cannot be read.
pub fn kernel_function(name: &str) -> crate::Result<Option<u32>> {
    match std::fs::read(KERNEL_TYPES) {
        Ok(types) => Ok(find_function(&types, name.as_bytes())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::new("read", KERNEL_TYPES, error)),
    }
}

/// Walks the types; nothing where they are not in the form that is described.
fn find_function(btf: &[u8], name: &[u8]) -> Option<u32> {
    if btf.get(..2)? != MAGIC.to_ne_bytes() || btf.len() < HEADER {
        return None;
    }
    let header_len = word(btf, 4)? as usize;
    let section = |offset: usize| -> Option<&[u8]> {
        let start = header_len.checked_add(word(btf, offset)? as usize)?;
        let len = word(btf, offset + 4)? as usize;
        btf.get(start..start.checked_add(len)?)
    };
    let (types, strings) = (section(8)?, section(16)?);
    let (mut at, mut id) = (0_usize, 0_u32);
    while at < types.len() {
        // Numbers begin with 1; 0 is void.
        id += 1;
        let info = word(types, at + 4)?;
        let kind = info >> 24 & 0x1f;
        if kind == KIND_FUNC {
            let text = strings.get(word(types, at)? as usize..)?;
            let ends = text.get(name.len()) == Some(&0);
            if ends && text.starts_with(name) {
                return Some(id);
            }
        }
        at = at.checked_add(TYPE + added(kind, (info & 0xffff) as usize)?)?;
    }
    None
}

/// Bytes that follow a type, by its kind and its number of members; nothing for unknown kinds.
fn added(kind: u32, members: usize) -> Option<usize> {
    Some(match kind {
        // Integers, variables, declaration tags: one word.
        1 | 14 | 17 => 4,
        // Arrays.
        3 => 12,
        // Structures, unions, sections, enumerations of 64 bits.
        4 | 5 | 15 | 19 => 12 * members,
        // Enumerations, function prototypes.
        6 | 13 => 8 * members,
        // Pointers, forwards, names, qualifiers, functions, floating point, type tags.
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An integer, a structure of one member, and two functions.
    fn types() -> Vec<u8> {
        let strings = b"\0int\0one_of_it\0one\0";
        let words: [u32; 19] = [
            1,
            1 << 24,
            4,
            32, // int
            5,
            4 << 24 | 1,
            4,
            1,
            1,
            0, // struct { int }
            5,
            12 << 24,
            0, // func one_of_it
            15,
            12 << 24,
            0, // func one
            0,
            99 << 24,
            0, // a kind of the future
        ];
        let types: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).expect("short");
        let mut btf = MAGIC.to_ne_bytes().to_vec();
        btf.extend([1, 0]);
        for word in [24, 0, len(&types), len(&types), len(strings)] {
            btf.extend(word.to_ne_bytes());
        }
        [&btf, &types, &strings[..]].concat()
    }

    #[test]
    fn functions_are_found_by_their_whole_names() {
        assert_eq!(find_function(&types(), b"one_of_it"), Some(3));
        assert_eq!(find_function(&types(), b"one"), Some(4));
        assert_eq!(find_function(&types(), b"on"), None);
        assert_eq!(find_function(&types(), b"int"), None);
    }

    #[test]
    fn broken_types_hold_nothing() {
        let whole = types();
        for len in 0..whole.len() {
            assert_eq!(find_function(&whole[..len], b"missing"), None);
        }
        let mut far = whole;
        far[8..12].fill(0xff);
        assert_eq!(find_function(&far, b"one"), None);
    }
}
