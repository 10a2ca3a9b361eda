//! Which fields are chosen.

use super::table::{FIELD_COUNT, FIELDS};
use super::{Field, Group};

/// A set of fields.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fields(u128);

const _: () = assert!(FIELD_COUNT <= 128);

/// A word that is neither a field nor a group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown field {word:?}; fields are those of the table in docs/reference/flow-export.md, groups are {groups}, all", groups = group_names())]
pub struct FieldError {
    /// The word.
    pub word: String,
}

impl Fields {
    /// The fields that every output has had: those of [`Group::Basic`].
    pub const BASIC: Self = Self::of(Group::Basic);

    /// No field.
    pub const NONE: Self = Self(0);

    /// Returns the fields of a group.
    #[must_use]
    pub const fn of(group: Group) -> Self {
        let (mut set, mut at) = (0, 0);
        while at < FIELD_COUNT {
            if FIELDS[at].group as u8 == group as u8 {
                set |= 1 << at;
            }
            at += 1;
        }
        Self(set)
    }

    /// Returns all fields.
    #[must_use]
    pub fn all() -> Self {
        Self(u128::MAX >> (128 - FIELD_COUNT))
    }

    /// Returns the fields of a list of names and groups between commas, such as `basic,names`.
    ///
    /// # Errors
    /// A word is neither a field, nor a group, nor `all`.
    pub fn parse(list: &str) -> Result<Self, FieldError> {
        let words = list.split(',').map(str::trim);
        words
            .map(Self::named)
            .try_fold(Self(0), |set, more| Ok(set.with(more?)))
    }

    fn named(word: &str) -> Result<Self, FieldError> {
        if word == "all" {
            return Ok(Self::all());
        }
        if let Some(group) = Group::ALL.into_iter().find(|group| group.name() == word) {
            let set = Self::of(group);
            // The handshake and the server name of QUIC are those of TLS.
            return Ok(match group {
                Group::Quic => set.with(Self::of(Group::Tls)),
                _ => set,
            });
        }
        let known = |field: &Field| field.name == word && field.in_files;
        match FIELDS.iter().position(known) {
            Some(at) => Ok(Self(1 << at)),
            None => Err(FieldError {
                word: word.to_owned(),
            }),
        }
    }

    /// Returns the fields of both sets.
    #[must_use]
    pub const fn with(self, more: Self) -> Self {
        Self(self.0 | more.0)
    }

    /// Returns the fields that are not in the other set.
    #[must_use]
    pub const fn without(self, less: Self) -> Self {
        Self(self.0 & !less.0)
    }

    /// Returns the fields of the set for which `is_kept` holds.
    #[must_use]
    pub fn filter(self, is_kept: impl Fn(&Field) -> bool) -> Self {
        let (mut rest, mut kept) = (self.0, 0);
        while rest != 0 {
            let at = rest.trailing_zeros();
            rest &= rest - 1;
            if FIELDS.get(at as usize).is_some_and(&is_kept) {
                kept |= 1 << at;
            }
        }
        Self(kept)
    }

    /// Whether the set has the field with this index in [`FIELDS`].
    #[inline]
    #[must_use]
    pub const fn has(self, index: usize) -> bool {
        index < FIELD_COUNT && self.0 >> index & 1 != 0
    }

    /// Whether the set has a field of the group.
    #[must_use]
    pub const fn has_any_of(self, group: Group) -> bool {
        self.0 & Self::of(group).0 != 0
    }

    /// Whether the set has a field that comes from payloads.
    #[must_use]
    pub fn needs_payload(self) -> bool {
        let mut groups = Group::ALL.into_iter();
        groups.any(|group| group.needs_payload() && self.has_any_of(group))
    }

    /// Returns the columns of files, in their order.
    pub fn columns(self) -> impl Iterator<Item = &'static Field> {
        let chosen = FIELDS.iter().enumerate();
        let chosen = chosen.filter(move |(at, field)| self.has(*at) && field.in_files);
        chosen.map(|(_, field)| field)
    }
}

impl Default for Fields {
    fn default() -> Self {
        Self::BASIC
    }
}

impl std::fmt::Debug for Fields {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.columns().map(|field| field.name))
            .finish()
    }
}

fn group_names() -> String {
    Group::ALL.map(Group::name).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_names_and_groups() {
        assert_eq!(Fields::parse("basic"), Ok(Fields::BASIC));
        let set = Fields::parse("src, dst,tls").expect("known words");
        let names: Vec<_> = set.columns().map(|field| field.name).collect();
        let tls = [
            "src",
            "dst",
            "tls_sni",
            "tls_alpn",
            "tls_version",
            "tls_cipher",
            "tls_ja4",
        ];
        assert_eq!(names, tls);
        assert!(set.needs_payload() && !Fields::BASIC.needs_payload());
        let quic = Fields::parse("quic").expect("a group");
        assert!(quic.has_any_of(Group::Tls));
        assert_eq!(Fields::parse("src,nope").unwrap_err().word, "nope");
        assert_eq!(Fields::parse("").unwrap_err().word, "");
    }

    #[test]
    fn names_are_unique_and_groups_are_not_named_as_fields() {
        let names: Vec<_> = FIELDS.iter().map(|field| field.name).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{name}");
            assert!(Group::ALL.iter().all(|group| group.name() != *name));
        }
    }
}
