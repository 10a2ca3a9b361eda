//! The kernel's own types (BTF), needed to call kernel functions by their type ID.
//!
//! Source: Documentation/bpf/btf.rst.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::AsFd;

use crate::Error;
use crate::disk::system_of;
use crate::pages::Pages;

/// The types of the running kernel.
const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";
/// `SYSFS_MAGIC` of `linux/magic.h`.
const SYSFS: u64 = 0x6265_6572;
const MAGIC: u16 = 0xeb9f;
/// Bytes of the header up to the lengths of both sections, and of a type without the data of its
/// kind.
const HEADER: usize = 24;
const TYPE: usize = 12;
const KIND_POINTER: u32 = 2;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
const KIND_ENUM: u32 = 6;
const KIND_TYPEDEF: u32 = 8;
const KIND_FUNC: u32 = 12;
const KIND_FUNC_PROTO: u32 = 13;
/// The depth to which unnamed structures are searched.
const NESTED: u32 = 4;

/// The types of the running kernel, for lookups by name.
#[derive(Debug)]
pub struct KernelTypes(Bytes);

/// The place of a structure's member, in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bits {
    /// The offset from the structure's start. On machines that store the most significant byte first, the
    /// kernel counts the bits of a byte from the most significant one.
    pub offset: u32,
    /// The width of a bit field; `None` for other members.
    pub width: Option<u32>,
}

/// Several megabytes. read(2) gets them page by page, which takes as long as all the rest of
/// opening a tap; since Linux 6.16 they can be mapped.
#[derive(Debug)]
enum Bytes {
    Mapped(Pages),
    Read(Vec<u8>),
}

impl KernelTypes {
    /// Maps or reads the types; returns `None` if the kernel does not provide them.
    ///
    /// # Errors
    /// They cannot be read.
    pub fn read() -> crate::Result<Option<Self>> {
        match Bytes::of_kernel() {
            Ok(types) => Ok(Some(Self(types))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::new("read", KERNEL_TYPES, error)),
        }
    }

    /// Returns the ID of a kernel function that programs may call. Functions of modules are not
    /// found.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<u32> {
        let sections = Sections::of(self.0.as_slice())?;
        let mut functions = sections.types().filter(|kind| kind.is(KIND_FUNC));
        functions.find_map(|function| {
            sections
                .has_name(function.name, name)
                .then_some(function.id)
        })
    }

    /// Returns the ID of a tracepoint, for a program that the verifier knows the arguments of.
    #[must_use]
    pub fn tracepoint(&self, name: &str) -> Option<u32> {
        let sections = Sections::of(self.0.as_slice())?;
        let name = format!("btf_trace_{name}");
        let mut aliases = sections.types().filter(|kind| kind.is(KIND_TYPEDEF));
        let found = aliases.find(|kind| sections.has_name(kind.name, &name));
        found.map(|alias| alias.id)
    }

    /// Returns the ID of a structure, by which programs refer to it.
    #[must_use]
    pub fn structure(&self, name: &str) -> Option<u32> {
        let sections = Sections::of(self.0.as_slice())?;
        let mut structures = sections.types().filter(|kind| kind.is(KIND_STRUCT));
        let found = structures.find(|kind| sections.has_name(kind.name, name));
        found.map(|structure| structure.id)
    }

    /// Returns the offset of a structure's member, in bytes, also if it is in an unnamed structure
    /// or union inside.
    #[must_use]
    pub fn member(&self, structure: &str, member: &str) -> Option<u32> {
        let bits = self.bits(structure, member)?.offset;
        (bits % 8 == 0).then_some(bits / 8)
    }

    /// Returns the place of a structure's member, which may be a bit field, as [`KernelTypes::member`] finds
    /// it.
    #[must_use]
    pub fn bits(&self, structure: &str, member: &str) -> Option<Bits> {
        let sections = Sections::of(self.0.as_slice())?;
        let mut structures = sections.types().filter(|kind| kind.is(KIND_STRUCT));
        let structure = structures.find(|kind| sections.has_name(kind.name, structure))?;
        sections.member(&structure, member, NESTED)
    }

    /// Returns the constants of an enumeration with their values; `None` if the kernel has no such
    /// enumeration.
    #[must_use]
    pub fn enumeration(&self, name: &str) -> Option<Vec<(String, u32)>> {
        let sections = Sections::of(self.0.as_slice())?;
        let mut kinds = sections.types().filter(|kind| kind.is(KIND_ENUM));
        let found = kinds.find(|kind| sections.has_name(kind.name, name))?;
        let constants = found.added.chunks_exact(8).filter_map(|constant| {
            let name = sections.name(word(constant, 0)?)?;
            Some((name, word(constant, 4)?))
        });
        Some(constants.collect())
    }

    /// Returns the number of arguments that the kernel passes to a raw tracepoint's programs.
    #[must_use]
    pub fn tracepoint_arguments(&self, tracepoint: &str) -> Option<usize> {
        let sections = Sections::of(self.0.as_slice())?;
        let name = format!("btf_trace_{tracepoint}");
        let mut names = sections.types().filter(|kind| kind.is(KIND_TYPEDEF));
        let alias = names.find(|kind| sections.has_name(kind.name, &name))?;
        let pointer = sections.by_id(alias.refers)?;
        let function = sections.by_id(pointer.refers)?;
        let is_function = pointer.is(KIND_POINTER) && function.is(KIND_FUNC_PROTO);
        // The first parameter is the kernel's own.
        is_function.then(|| (function.added.len() / 8).saturating_sub(1))
    }

    /// Returns the value of an enumeration's constant.
    #[must_use]
    pub fn constant(&self, name: &str) -> Option<u32> {
        let sections = Sections::of(self.0.as_slice())?;
        let constants = sections.types().filter(|kind| kind.is(KIND_ENUM));
        let mut constants = constants.flat_map(|kind| kind.added.chunks_exact(8));
        constants.find_map(|constant| {
            let is_it = sections.has_name(word(constant, 0)?, name);
            is_it.then(|| word(constant, 4)).flatten()
        })
    }
}

/// Returns the ID of a kernel function that programs may call. Returns `None` if the kernel has no
/// such function or does not provide its types. Functions of modules are not found.
///
/// # Errors
/// The types cannot be read.
pub fn kernel_function(name: &str) -> crate::Result<Option<u32>> {
    Ok(KernelTypes::read()?.and_then(|types| types.function(name)))
}

impl Bytes {
    fn of_kernel() -> io::Result<Self> {
        let mut file = File::open(KERNEL_TYPES)?;
        let len = usize::try_from(file.metadata()?.len()).unwrap_or_default();
        if let Some(pages) = kernel_pages(&file, len) {
            return Ok(Self::Mapped(pages));
        }
        let mut bytes = Vec::with_capacity(len);
        file.read_to_end(&mut bytes)?;
        Ok(Self::Read(bytes))
    }

    fn as_slice(&self) -> &[u8] {
        match self {
            // SAFETY: the mapping has this length and lives as long as `self`. It shows a part of the
            // kernel's image that is never written to or removed while the kernel runs: sysfs has
            // no other files that can be mapped like this.
            Self::Mapped(pages) => unsafe {
                std::slice::from_raw_parts(pages.start.as_ptr(), pages.len)
            },
            Self::Read(bytes) => bytes,
        }
    }
}

/// Maps the kernel's own pages. Returns `None` if they cannot be mapped, or if another file was mounted
/// in place of the kernel's.
fn kernel_pages(file: &File, len: usize) -> Option<Pages> {
    if system_of(file) != Some(SYSFS) {
        return None;
    }
    Pages::map(
        Some(file.as_fd()),
        0,
        len,
        libc::PROT_READ,
        libc::MAP_PRIVATE,
    )
    .ok()
}

/// The two sections of the types.
#[derive(Clone, Copy)]
struct Sections<'a> {
    types: &'a [u8],
    strings: &'a [u8],
}

/// A type.
#[derive(Clone, Copy)]
struct Type<'a> {
    id: u32,
    /// Offset of its name in the strings.
    name: u32,
    info: u32,
    /// Its size, or the ID of the type that it refers to.
    refers: u32,
    /// The data of its kind.
    added: &'a [u8],
}

impl Type<'_> {
    fn is(&self, kind: u32) -> bool {
        self.info >> 24 & 0x1f == kind
    }
}

impl<'a> Sections<'a> {
    /// Returns `None` if the format is not the documented one.
    fn of(btf: &'a [u8]) -> Option<Self> {
        if btf.get(..2)? != MAGIC.to_ne_bytes() || btf.len() < HEADER {
            return None;
        }
        let header_len = word(btf, 4)? as usize;
        let section = |offset: usize| -> Option<&[u8]> {
            let start = header_len.checked_add(word(btf, offset)? as usize)?;
            let len = word(btf, offset + 4)? as usize;
            btf.get(start..start.checked_add(len)?)
        };
        Some(Self {
            types: section(8)?,
            strings: section(16)?,
        })
    }

    /// Returns the types, up to the first of an unknown kind. IDs begin with 1; 0 is void.
    fn types(self) -> impl Iterator<Item = Type<'a>> {
        let (mut at, mut id) = (0_usize, 0_u32);
        std::iter::from_fn(move || {
            let (name, info) = (word(self.types, at)?, word(self.types, at + 4)?);
            let refers = word(self.types, at + 8)?;
            let begin = at.checked_add(TYPE)?;
            let end = begin.checked_add(added(info >> 24 & 0x1f, (info & 0xffff) as usize)?)?;
            let added = self.types.get(begin..end)?;
            (at, id) = (end, id + 1);
            Some(Type {
                id,
                name,
                info,
                refers,
                added,
            })
        })
    }

    fn by_id(&self, id: u32) -> Option<Type<'a>> {
        self.types().nth((id as usize).checked_sub(1)?)
    }

    fn name(&self, at: u32) -> Option<String> {
        let text = self.strings.get(at as usize..)?;
        let end = text.iter().position(|&byte| byte == 0)?;
        Some(String::from_utf8_lossy(&text[..end]).into_owned())
    }

    fn has_name(&self, at: u32, name: &str) -> bool {
        let text = self.strings.get(at as usize..).unwrap_or_default();
        text.get(name.len()) == Some(&0) && text.starts_with(name.as_bytes())
    }

    fn member(&self, of: &Type<'_>, name: &str, depth: u32) -> Option<Bits> {
        // If a structure has bit fields, their width is stored above the offset.
        let has_fields = of.info >> 31 == 1;
        let mask = if has_fields { 0xff_ffff } else { u32::MAX };
        of.added.chunks_exact(12).find_map(|member| {
            let (at, kind) = (word(member, 0)?, word(member, 4)?);
            let place = word(member, 8)?;
            let offset = place & mask;
            if self.has_name(at, name) {
                let width = (place >> 24 != 0 && has_fields).then_some(place >> 24);
                return Some(Bits { offset, width });
            }
            if depth == 0 || !self.has_name(at, "") {
                return None;
            }
            let inner = self.by_id(kind)?;
            if !inner.is(KIND_STRUCT) && !inner.is(KIND_UNION) {
                return None;
            }
            let within = self.member(&inner, name, depth - 1)?;
            Some(Bits {
                offset: offset.checked_add(within.offset)?,
                width: within.width,
            })
        })
    }
}

/// Returns the bytes that follow a type, by its kind and its number of members; `None` for unknown
/// kinds.
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

    /// Returns an integer, a structure of one member, and two functions.
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

    fn find_function(types: &[u8], name: &str) -> Option<u32> {
        KernelTypes(Bytes::Read(types.to_vec())).function(name)
    }

    #[test]
    fn functions_are_found_by_their_whole_names() {
        assert_eq!(find_function(&types(), "one_of_it"), Some(3));
        assert_eq!(find_function(&types(), "one"), Some(4));
        assert_eq!(find_function(&types(), "on"), None);
        assert_eq!(find_function(&types(), "int"), None);
    }

    #[test]
    fn structures_are_found_by_their_whole_names() {
        let found = |name| KernelTypes(Bytes::Read(types())).structure(name);
        assert_eq!(found("one_of_it"), Some(2));
        assert_eq!(found("one"), None);
        assert_eq!(found("int"), None);
    }

    #[test]
    fn broken_types_hold_nothing() {
        let whole = types();
        for len in 0..whole.len() {
            assert_eq!(find_function(&whole[..len], "missing"), None);
        }
        let mut far = whole;
        far[8..12].fill(0xff);
        assert_eq!(find_function(&far, "one"), None);
    }

    #[test]
    fn members_are_found_within_structures_without_names() {
        let strings = b"\0it\0a\0b\0c\0ON\0";
        let words: [u32; 37] = [
            1,
            4 << 24 | 2,
            24, // struct it
            4,
            9,
            0, // a, of a type that is not there, at 0
            0,
            2,
            64, // a union without a name, at 8
            0,
            5 << 24 | 1,
            8, // union
            0,
            3,
            0,
            0,
            4 << 24 | 2 | 1 << 31,
            8, // struct, with members of bits
            6,
            9,
            3 << 24 | 2, // b, of 3 bits, at bit 2
            8,
            9,
            32, // c
            0,
            6 << 24 | 2,
            4, // enum
            4,
            7,
            10,
            1,
            0,
            99 << 24,
            0,
            0,
            0,
            0,
        ];
        let types: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let len = |bytes: &[u8]| u32::try_from(bytes.len()).expect("short");
        let mut btf = MAGIC.to_ne_bytes().to_vec();
        btf.extend([1, 0]);
        for word in [24, 0, len(&types), len(&types), len(strings)] {
            btf.extend(word.to_ne_bytes());
        }
        let btf = KernelTypes(Bytes::Read([&btf, &types, &strings[..]].concat()));
        assert_eq!(btf.member("it", "a"), Some(0));
        assert_eq!(btf.member("it", "b"), None, "not at a byte");
        assert_eq!(btf.member("it", "c"), Some(12));
        assert_eq!(btf.member("it", "d"), None);
        let b = Bits {
            offset: 66,
            width: Some(3),
        };
        assert_eq!(btf.bits("it", "b"), Some(b));
        assert_eq!(btf.constant("ON"), Some(1));
        assert_eq!(btf.constant("it"), None);
    }

    #[test]
    fn mapped_types_are_those_that_are_read() {
        let types = Bytes::of_kernel().expect("readable");
        let read = std::fs::read(KERNEL_TYPES).expect("readable");
        assert!(types.as_slice() == read);
        // A file outside sysfs is not mapped.
        let file = tempfile::tempfile().expect("temporary file");
        file.set_len(read.len() as u64).expect("long enough");
        assert!(kernel_pages(&file, read.len()).is_none());
    }

    #[test]
    fn the_running_kernel_tells_of_its_own() {
        let types = KernelTypes::read().expect("readable");
        let types = types.expect("this kernel tells its types");
        assert!(types.function("bpf_cast_to_kern_ctx").is_some());
        assert_eq!(types.member("xdp_buff", "data"), Some(0));
        assert!(types.member("xdp_buff", "flags").is_some());
        assert!(types.constant("XDP_FLAGS_HAS_FRAGS").is_some());
        let reasons = types.enumeration("skb_drop_reason").expect("drop reasons");
        assert!(reasons.contains(&("SKB_NOT_DROPPED_YET".to_owned(), 0)));
        assert!(types.enumeration("no_such_enumeration").is_none());
        let arguments = types.tracepoint_arguments("kfree_skb");
        assert!(arguments.is_some_and(|count| count >= 3));
        assert_eq!(types.tracepoint_arguments("no_such_tracepoint"), None);
    }
}
