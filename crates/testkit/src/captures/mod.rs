//! Encoders of capture files, written from the formats' documents and independent of the crate's
//! writers: any byte order, any damage.

pub mod variants;

use ringtap_savefile::ByteOrder;

/// The byte order that puts the lowest byte first.
pub const LITTLE: ByteOrder = ByteOrder::Little;
/// The byte order that puts the highest byte first.
pub const BIG: ByteOrder = ByteOrder::Big;

/// The fields of a pcap file header.
#[derive(Clone, Copy, Debug)]
pub struct PcapHeader {
    /// The byte order.
    pub order: ByteOrder,
    /// The magic number.
    pub magic: u32,
    /// The major and the minor version.
    pub version: (u16, u16),
    /// The longest packet.
    pub snaplen: u32,
    /// The link type, with flags.
    pub link_type: u32,
}

impl PcapHeader {
    /// The usual header: Ethernet, microseconds.
    pub const MICROS: Self = Self {
        order: LITTLE,
        magic: 0xa1b2_c3d4,
        version: (2, 4),
        snaplen: 262_144,
        link_type: 1,
    };

    /// Returns the header in the form of the file.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let order = self.order;
        [
            &order.of_u32(self.magic)[..],
            &order.of_u16(self.version.0),
            &order.of_u16(self.version.1),
            &[0; 8],
            &order.of_u32(self.snaplen),
            &order.of_u32(self.link_type),
        ]
        .concat()
    }

    /// Returns a record, with its four fields in the form of the file.
    #[must_use]
    pub fn record(&self, fields: [u32; 4], data: &[u8]) -> Vec<u8> {
        let mut bytes = fields.map(|field| self.order.of_u32(field)).concat();
        if self.magic == 0xa1b2_cd34 {
            bytes.extend_from_slice(&[0xee; 8]);
        }
        bytes.extend_from_slice(data);
        bytes
    }

    /// Returns a whole packet at 1 s and 2 units.
    #[must_use]
    pub fn packet(&self, data: &[u8]) -> Vec<u8> {
        let caplen = small(data.len());
        self.record([1, 2, caplen, caplen], data)
    }
}

/// Returns a byte pattern of that length.
#[must_use]
pub fn pattern(length: usize) -> Vec<u8> {
    (0..=255).cycle().take(length).collect()
}

/// Encodes pcapng blocks.
#[derive(Clone, Copy, Debug)]
pub struct Ng(pub ByteOrder);

impl Ng {
    /// Returns a block around a body, which is padded.
    #[must_use]
    pub fn block(self, block_type: u32, body: &[u8]) -> Vec<u8> {
        let padded = body.len().next_multiple_of(4);
        let total = small(padded + 12);
        self.framed(block_type, total, body, total)
    }

    /// Returns a block with any two lengths.
    #[must_use]
    pub fn framed(self, block_type: u32, length: u32, body: &[u8], trailer: u32) -> Vec<u8> {
        let padding = body.len().next_multiple_of(4) - body.len();
        [
            &self.0.of_u32(block_type)[..],
            &self.0.of_u32(length),
            body,
            &[0; 3][..padding],
            &self.0.of_u32(trailer),
        ]
        .concat()
    }

    /// Returns the body of a section header block.
    #[must_use]
    pub fn section_body(self, version: (u16, u16), options: &[u8]) -> Vec<u8> {
        [
            &self.0.of_u32(0x1a2b_3c4d)[..],
            &self.0.of_u16(version.0),
            &self.0.of_u16(version.1),
            &[0xff; 8],
            options,
        ]
        .concat()
    }

    /// Returns a section header block.
    #[must_use]
    pub fn section(self) -> Vec<u8> {
        self.block(0x0a0d_0d0a, &self.section_body((1, 0), &[]))
    }

    /// Returns an interface description block.
    #[must_use]
    pub fn interface(self, link_type: u16, snaplen: u32, options: &[u8]) -> Vec<u8> {
        let (link_type, snaplen) = (self.0.of_u16(link_type), self.0.of_u32(snaplen));
        self.block(1, &[&link_type[..], &[0; 2], &snaplen, options].concat())
    }

    /// Returns an option.
    #[must_use]
    pub fn option(self, code: u16, value: &[u8]) -> Vec<u8> {
        let length = u16::try_from(value.len()).unwrap_or(u16::MAX);
        let padding = value.len().next_multiple_of(4) - value.len();
        let head = [code, length].map(|field| self.0.of_u16(field));
        [&head.concat()[..], value, &[0; 3][..padding]].concat()
    }

    /// Returns the body of an enhanced packet block: interface, ticks, caplen and len, then its data and
    /// options.
    #[must_use]
    pub fn enhanced_body(
        self,
        fields: (u32, u64, u32, u32),
        data: &[u8],
        options: &[u8],
    ) -> Vec<u8> {
        let (interface, ticks, caplen, len) = fields;
        let half = |ticks: u64| u32::try_from(ticks & 0xffff_ffff).unwrap_or(0);
        let (high, low) = (half(ticks >> 32), half(ticks));
        let padding = data.len().next_multiple_of(4) - data.len();
        let head = [interface, high, low, caplen, len].map(|field| self.0.of_u32(field));
        [&head.concat()[..], data, &[0; 3][..padding], options].concat()
    }

    /// Returns an enhanced packet block.
    #[must_use]
    pub fn enhanced(self, interface: u32, ticks: u64, data: &[u8]) -> Vec<u8> {
        let caplen = small(data.len());
        let fields = (interface, ticks, caplen, caplen);
        self.block(6, &self.enhanced_body(fields, data, &[]))
    }

    /// Returns a simple packet block.
    #[must_use]
    pub fn simple(self, len: u32, data: &[u8]) -> Vec<u8> {
        self.block(3, &[&self.0.of_u32(len)[..], data].concat())
    }

    /// Returns a packet block, the obsolete kind.
    #[must_use]
    pub fn obsolete(self, interface: u16, ticks: u64, data: &[u8]) -> Vec<u8> {
        let caplen = small(data.len());
        let mut body = self.enhanced_body((0, ticks, caplen, caplen), data, &[]);
        body[..2].copy_from_slice(&self.0.of_u16(interface));
        body[2..4].copy_from_slice(&self.0.of_u16(7));
        self.block(2, &body)
    }

    /// Returns a section with one Ethernet interface without a snaplen.
    #[must_use]
    pub fn prelude(self) -> Vec<u8> {
        [self.section(), self.interface(1, 0, &[])].concat()
    }
}

fn small(length: usize) -> u32 {
    u32::try_from(length).expect("less than 4 GiB")
}
