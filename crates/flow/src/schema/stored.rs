//! The types of the columns in stores and databases.
//!
//! Each type is one that DataFusion, DuckDB, ClickHouse and Spark read without loss. Counters are signed, as Spark
//! has no unsigned 64 bits. Addresses are 16 bytes, as no engine shares its address type with another.

use std::net::IpAddr;

use super::{FIELDS, Field, Kind};

/// The version of the schema. A version adds columns; it renames none, and changes the type of none.
pub const SCHEMA_VERSION: u32 = 1;

/// The number of the exporter's name in messages of Protocol Buffers: behind those of the basic fields.
pub const EXPORTER_NUMBER: u32 = 99;

/// The type of a stored column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storage {
    /// Nanoseconds since 1970, UTC, in 64 bits.
    Time,
    /// An unsigned number of 8 bits.
    U8,
    /// An unsigned number of 16 bits.
    U16,
    /// An unsigned number of 32 bits.
    U32,
    /// A signed number of 64 bits, never negative; larger values are stored as the largest.
    I64,
    /// 16 bytes: an IPv6 address, or an IPv4 address as `::ffff:a.b.c.d` (RFC 4291, section 2.5.5.2).
    Address,
    /// Text in UTF-8.
    Text,
}

/// A column that is not in the files: readers take it from the names of the folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The name of the column.
    pub name: &'static str,
    /// Its meaning, in a sentence without its full stop.
    pub doc: &'static str,
}

impl Partition {
    /// The levels of folders, from the outermost.
    pub const ALL: [Self; 3] = [
        Self {
            name: "date",
            doc: "Day of the end of the flow, UTC, such as 2026-11-26",
        },
        Self {
            name: "hour",
            doc: "Hour of the end of the flow, UTC, 0 to 23",
        },
        Self {
            name: "exporter",
            doc: "Name of the probe, or address of the exporter with - for each colon",
        },
    ];
}

impl Field {
    /// Returns the name of the stored column. Only the address of the exporter has another name than in files:
    /// `exporter` is a level of folders.
    #[must_use]
    pub fn stored_name(&self) -> &'static str {
        match self.name {
            "exporter" => "exporter_address",
            name => name,
        }
    }

    /// Returns the type of the stored column.
    #[must_use]
    pub const fn storage(&self) -> Storage {
        match (self.kind, self.bits) {
            (Kind::Time, _) => Storage::Time,
            (Kind::Address, _) => Storage::Address,
            (Kind::Mac | Kind::Text, _) => Storage::Text,
            (_, 8) => Storage::U8,
            (_, 16) => Storage::U16,
            (_, 32) => Storage::U32,
            _ => Storage::I64,
        }
    }

    /// Returns the number of the field in messages of Protocol Buffers. It never changes, since fields are added
    /// behind the others of their group: each group has a hundred numbers, of which the first stays free.
    #[must_use]
    pub fn protobuf_number(&self) -> u32 {
        const GROUP: u32 = 100;
        let before = FIELDS.iter().take_while(|field| field.name != self.name);
        let number = before.filter(|field| field.group == self.group).count();
        self.group as u32 * GROUP + 1 + u32::try_from(number).unwrap_or(0)
    }

    /// Whether every record has a value.
    #[must_use]
    pub fn is_required(&self) -> bool {
        matches!(
            self.name,
            "first" | "last" | "src" | "dst" | "protocol" | "packets" | "bytes" | "sampling"
        )
    }
}

impl Storage {
    /// Returns the type in the words of DuckDB.
    #[must_use]
    pub const fn duckdb(self) -> &'static str {
        match self {
            Self::Time => "TIMESTAMPTZ_NS",
            Self::U8 => "UTINYINT",
            Self::U16 => "USMALLINT",
            Self::U32 => "UINTEGER",
            Self::I64 => "BIGINT",
            Self::Address => "BLOB",
            Self::Text => "VARCHAR",
        }
    }

    /// Returns the type in the words of Protocol Buffers.
    #[must_use]
    pub const fn protobuf(self) -> &'static str {
        match self {
            Self::Time | Self::I64 => "int64",
            Self::U8 | Self::U16 | Self::U32 => "uint32",
            Self::Address => "bytes",
            Self::Text => "string",
        }
    }

    /// Returns the type in the words of ClickHouse.
    #[must_use]
    pub const fn clickhouse(self) -> &'static str {
        match self {
            Self::Time => "DateTime64(9, 'UTC')",
            Self::U8 => "UInt8",
            Self::U16 => "UInt16",
            Self::U32 => "UInt32",
            Self::I64 => "Int64",
            Self::Address => "IPv6",
            Self::Text => "String",
        }
    }

    /// Returns the type in the words of Spark, as it reads the files.
    #[must_use]
    pub const fn spark(self) -> &'static str {
        match self {
            Self::Time | Self::U32 | Self::I64 => "BIGINT",
            Self::U8 => "SMALLINT",
            Self::U16 => "INT",
            Self::Address => "BINARY",
            Self::Text => "STRING",
        }
    }

    /// Returns the physical and the logical type in Parquet.
    #[must_use]
    pub const fn parquet(self) -> &'static str {
        match self {
            Self::Time => "INT64 TIMESTAMP(NANOS, UTC)",
            Self::U8 => "INT32 UINT_8",
            Self::U16 => "INT32 UINT_16",
            Self::U32 => "INT32 UINT_32",
            Self::I64 => "INT64",
            Self::Address => "FIXED_LEN_BYTE_ARRAY(16)",
            Self::Text => "BYTE_ARRAY STRING",
        }
    }
}

/// Returns the 16 bytes of an address.
#[inline]
#[must_use]
pub fn address_bytes(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_names_are_unique_and_no_level_of_folders() {
        let names: Vec<_> = FIELDS.iter().map(Field::stored_name).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{name}");
            assert!(
                Partition::ALL.iter().all(|level| level.name != *name),
                "{name}"
            );
        }
    }

    #[test]
    fn numbers_of_messages_are_unique_and_below_the_reserved_one() {
        let mut numbers: Vec<_> = FIELDS.iter().map(Field::protobuf_number).collect();
        assert!(numbers.iter().all(|number| number % 100 < EXPORTER_NUMBER));
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), FIELDS.len());
    }

    #[test]
    fn numbers_are_as_wide_as_their_elements() {
        let wide = |storage| match storage {
            Storage::U8 => 1,
            Storage::U16 => 2,
            Storage::U32 => 4,
            _ => 8,
        };
        // The elements of these have other units, or a second value.
        let different = ["icmp_type", "resets", "reverse_resets", "tunnel_id"];
        let numbers = FIELDS
            .iter()
            .filter(|field| matches!(field.kind, Kind::Number | Kind::Code));
        for field in numbers.filter(|field| !different.contains(&field.name)) {
            let bytes = wide(field.storage());
            let longest = field.elements.iter().map(|wire| wire.length).max();
            assert!(
                longest.is_none_or(|longest| longest <= bytes),
                "{}",
                field.name
            );
        }
    }

    #[test]
    fn addresses_of_both_versions_have_16_bytes() {
        let four = address_bytes("192.0.2.1".parse().expect("an address"));
        assert_eq!(four[..12], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255]);
        assert_eq!(four[12..], [192, 0, 2, 1]);
        let six = address_bytes("2001:db8::1".parse().expect("an address"));
        assert_eq!(six[..4], [0x20, 1, 0x0d, 0xb8]);
    }
}
