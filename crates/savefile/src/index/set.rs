//! Sets of keys, exact or approximate; a set always contains every key that was added.

use super::Fields;

/// A set of addresses or ports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Set<T> {
    /// Nothing is known: any key may be in it.
    Anything,
    /// Exactly these keys, in ascending order.
    Exact(Vec<T>),
    /// A split-block Bloom filter.
    Bloom(Vec<[u32; LANES]>),
}

/// The keys that a search looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted<T> {
    /// All keys from the first to the last, both included.
    Range(T, T),
    /// All keys that equal the value under the mask.
    Masked {
        /// The value. It is all zeros where the mask is zero.
        value: T,
        /// The bits to compare.
        mask: T,
    },
}

/// The keys of a stretch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Keys {
    /// IPv4 addresses, in host byte order.
    pub ip4: Set<u32>,
    /// IPv6 addresses, in host byte order.
    pub ip6: Set<u128>,
    /// Ports of TCP, UDP and SCTP.
    pub ports: Set<u16>,
}

impl Keys {
    /// The keys of a stretch about which nothing is known.
    pub const ANYTHING: Self = Self {
        ip4: Set::Anything,
        ip6: Set::Anything,
        ports: Set::Anything,
    };

    pub(super) fn put(&self, to: &mut Vec<u8>) {
        self.ip4.put(to);
        self.ip6.put(to);
        self.ports.put(to);
    }

    pub(super) fn take(fields: &mut Fields<'_>) -> Option<Self> {
        Some(Self {
            ip4: Set::take(fields)?,
            ip6: Set::take(fields)?,
            ports: Set::take(fields)?,
        })
    }
}

/// A type of keys.
pub trait Element: Copy + Ord + std::ops::BitAnd<Output = Self> + private::Bytes {}

impl Element for u16 {}
impl Element for u32 {}
impl Element for u128 {}

mod private {
    pub trait Bytes: Sized {
        const LEN: usize;
        const ONES: Self;
        fn put(self, to: &mut Vec<u8>);
        fn get(bytes: &[u8]) -> Option<Self>;
        /// Returns a 64-bit hash that two elements rarely share.
        fn hash(self) -> u64;
    }

    macro_rules! bytes {
        ($type:ty, $hash:expr) => {
            impl Bytes for $type {
                const LEN: usize = size_of::<Self>();
                const ONES: Self = Self::MAX;

                fn put(self, to: &mut Vec<u8>) {
                    to.extend(self.to_le_bytes());
                }

                fn get(bytes: &[u8]) -> Option<Self> {
                    bytes.first_chunk().copied().map(Self::from_le_bytes)
                }

                fn hash(self) -> u64 {
                    $hash(self)
                }
            }
        };
    }

    bytes!(u16, |number| mixed(u64::from(number)));
    bytes!(u32, |number| mixed(u64::from(number)));
    bytes!(u128, |number: u128| {
        let [high, low] = [number >> 64, number & u128::from(u64::MAX)];
        let half = |bits: u128| u64::try_from(bits).unwrap_or(0);
        mixed(mixed(half(high)) ^ half(low))
    });

    /// Mixes bits as the finaliser of SplitMix64.
    fn mixed(mut bits: u64) -> u64 {
        bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ bits >> 31
    }
}

/// Number of words in a block of a Bloom filter.
const LANES: usize = 8;
const BLOCK: usize = LANES * 4;
/// One odd factor for each word of a block, as in Parquet's filters.
const SALTS: [u32; LANES] = [
    0x47b6_137b,
    0x4497_4d91,
    0x8824_ad5b,
    0xa2b7_289d,
    0x7054_95c7,
    0x2df1_424b,
    0x9efc_4947,
    0x5c6b_fb31,
];
/// Bits per key of a Bloom filter, if there is room, and the smallest useful number.
const BITS: usize = 12;
const LEAST_BITS: usize = 4;

const ANYTHING: u8 = 0;
const EXACT: u8 = 1;
const BLOOM: u8 = 2;

impl<T: Element> Set<T> {
    /// Makes a set of keys (ascending, each once) in at most `room` bytes.
    fn within(keys: Vec<T>, room: usize) -> Self {
        if keys.len() * T::LEN <= room {
            return Self::Exact(keys);
        }
        let wanted = (keys.len() * BITS).div_ceil(8 * BLOCK);
        let blocks = wanted.min(room / BLOCK);
        if blocks * 8 * BLOCK < keys.len() * LEAST_BITS {
            return Self::Anything;
        }
        let mut filter = vec![[0; LANES]; blocks];
        for key in keys {
            let hash = key.hash();
            if let Some(block) = filter.get_mut(block_of(hash, blocks)) {
                for (word, bit) in block.iter_mut().zip(bits_of(hash)) {
                    *word |= bit;
                }
            }
        }
        Self::Bloom(filter)
    }

    /// Returns whether the set may contain any wanted key.
    #[must_use]
    pub fn may_have(&self, wanted: Wanted<T>) -> bool {
        match (self, wanted) {
            (Self::Anything, _) => true,
            (Self::Exact(list), Wanted::Range(first, last)) => {
                let at = list.partition_point(|key| *key < first);
                list.get(at).is_some_and(|key| *key <= last)
            }
            (Self::Exact(list), Wanted::Masked { value, mask }) if mask == T::ONES => {
                list.binary_search(&value).is_ok()
            }
            (Self::Exact(list), Wanted::Masked { value, mask }) => {
                list.iter().any(|key| *key & mask == value)
            }
            (Self::Bloom(filter), Wanted::Range(first, last)) => {
                first != last || has(filter, first)
            }
            (Self::Bloom(filter), Wanted::Masked { value, mask }) => {
                mask != T::ONES || has(filter, value)
            }
        }
    }

    fn put(&self, to: &mut Vec<u8>) {
        to.push(match self {
            Self::Anything => ANYTHING,
            Self::Exact(_) => EXACT,
            Self::Bloom(_) => BLOOM,
        });
        to.extend(u32::try_from(self.room()).unwrap_or(u32::MAX).to_le_bytes());
        match self {
            Self::Anything => {}
            Self::Exact(list) => list.iter().for_each(|key| key.put(to)),
            Self::Bloom(filter) => {
                to.extend(filter.iter().flatten().flat_map(|word| word.to_le_bytes()));
            }
        }
    }

    /// Returns the bytes that the keys take.
    fn room(&self) -> usize {
        match self {
            Self::Anything => 0,
            Self::Exact(list) => list.len() * T::LEN,
            Self::Bloom(filter) => filter.len() * BLOCK,
        }
    }

    fn take(fields: &mut Fields<'_>) -> Option<Self> {
        let [kind] = fields.array()?;
        let len = usize::try_from(fields.u32()?).ok()?;
        let bytes = fields.bytes(len)?;
        match kind {
            ANYTHING if bytes.is_empty() => Some(Self::Anything),
            EXACT if len % T::LEN == 0 => {
                let list: Option<Vec<T>> = bytes.chunks(T::LEN).map(T::get).collect();
                let list = list.filter(|list| list.is_sorted_by(|a, b| a < b))?;
                Some(Self::Exact(list))
            }
            BLOOM if len % BLOCK == 0 && len > 0 => {
                let words = bytes.as_chunks().0.iter().copied().map(u32::from_le_bytes);
                let words: Vec<u32> = words.collect();
                Some(Self::Bloom(words.as_chunks().0.to_vec()))
            }
            _ => None,
        }
    }
}

fn has<T: Element>(filter: &[[u32; LANES]], key: T) -> bool {
    let hash = key.hash();
    let block = filter.get(block_of(hash, filter.len()));
    block.is_none_or(|block| {
        let mut bits = block.iter().zip(bits_of(hash));
        bits.all(|(word, bit)| word & bit != 0)
    })
}

/// Returns the block for a hash, chosen by its upper half.
fn block_of(hash: u64, blocks: usize) -> usize {
    let block = ((hash >> 32) * (blocks as u64)) >> 32;
    usize::try_from(block).unwrap_or(0)
}

/// Returns one bit for each word, chosen by the lower half.
#[expect(clippy::cast_possible_truncation, reason = "the lower half is wanted")]
fn bits_of(hash: u64) -> impl Iterator<Item = u32> {
    let key = hash as u32;
    SALTS
        .into_iter()
        .map(move |salt| 1 << (key.wrapping_mul(salt) >> 27))
}

/// Collects the keys of a stretch.
#[derive(Debug)]
pub struct Collector {
    ip4: Distinct<u32>,
    ip6: Distinct<u128>,
    ports: Box<[u64; PORT_WORDS]>,
}

const PORT_WORDS: usize = (1 << 16) / 64;

impl Default for Collector {
    fn default() -> Self {
        Self {
            ip4: Distinct::default(),
            ip6: Distinct::default(),
            ports: Box::new([0; PORT_WORDS]),
        }
    }
}

impl Collector {
    /// Adds an IPv4 address.
    #[inline]
    pub fn ip4(&mut self, address: u32) {
        self.ip4.add(address);
    }

    /// Adds an IPv6 address.
    #[inline]
    pub fn ip6(&mut self, address: u128) {
        self.ip6.add(address);
    }

    /// Adds a port.
    #[inline]
    pub fn port(&mut self, port: u16) {
        if let Some(word) = self.ports.get_mut(usize::from(port / 64)) {
            *word |= 1 << (port % 64);
        }
    }

    /// Takes the keys of a stretch of `len` bytes, as sets whose size is in proportion to it; the
    /// collector is then empty.
    pub fn take(&mut self, len: u64) -> Keys {
        /// The divisor for the largest part of the stretch that its sets may take.
        const SHARE: u64 = 128;
        let ip4 = self.ip4.take();
        let ip6 = self.ip6.take();
        let ports = self.take_ports();
        let room = usize::try_from(len / SHARE).unwrap_or(usize::MAX);
        let ports = Set::within(ports, room / 4);
        let mut room = room - ports.room();
        // Small sets are exact; large ones share the rest of the room by their numbers of keys.
        let wanted = [ip4.len() * 4, ip6.len() * 16];
        if wanted[0] + wanted[1] > room {
            let of_ip6 = room * ip6.len() / (ip4.len() + ip6.len()).max(1);
            let ip6 = Set::within(ip6, of_ip6.max(room.saturating_sub(wanted[0])));
            room -= ip6.room();
            let ip4 = Set::within(ip4, room);
            return Keys { ip4, ip6, ports };
        }
        Keys {
            ip4: Set::Exact(ip4),
            ip6: Set::Exact(ip6),
            ports,
        }
    }

    fn take_ports(&mut self) -> Vec<u16> {
        let mut list = Vec::new();
        for (first, word) in (0..=u16::MAX).step_by(64).zip(self.ports.iter_mut()) {
            let mut bits = std::mem::take(word);
            while bits != 0 {
                let bit = u16::try_from(bits.trailing_zeros()).unwrap_or(0);
                list.push(first + bit);
                bits &= bits - 1;
            }
        }
        list
    }
}

/// A list of added elements, without most repetitions.
#[derive(Debug)]
struct Distinct<T> {
    list: Vec<T>,
    /// The number of elements at which repetitions are removed again.
    limit: usize,
    /// The latest elements, each at the place that its hash selects.
    recent: Box<[Option<T>; RECENT]>,
}

const RECENT: usize = 256;
const FIRST_LIMIT: usize = 4096;

impl<T: Element> Default for Distinct<T> {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            limit: FIRST_LIMIT,
            recent: Box::new([None; RECENT]),
        }
    }
}

impl<T: Element> Distinct<T> {
    #[inline]
    fn add(&mut self, element: T) {
        let at = usize::try_from(element.hash() % RECENT as u64).unwrap_or(0);
        let Some(recent) = self.recent.get_mut(at) else {
            return;
        };
        if *recent == Some(element) {
            return;
        }
        *recent = Some(element);
        self.list.push(element);
        if self.list.len() >= self.limit {
            self.settle();
            self.limit = FIRST_LIMIT.max(self.list.len() * 2);
        }
    }

    fn settle(&mut self) {
        self.list.sort_unstable();
        self.list.dedup();
    }

    fn take(&mut self) -> Vec<T> {
        self.settle();
        *self.recent = [None; RECENT];
        self.limit = FIRST_LIMIT;
        std::mem::take(&mut self.list)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one<T: Element>(key: T) -> Wanted<T> {
        Wanted::Range(key, key)
    }

    #[test]
    fn small_sets_are_exact() {
        let mut collector = Collector::default();
        for key in [7, 3, 7, 9, 3] {
            collector.ip4(key);
        }
        collector.port(65535);
        collector.port(0);
        let keys = collector.take(1 << 20);
        assert_eq!(keys.ip4, Set::Exact(vec![3, 7, 9]));
        assert_eq!(keys.ports, Set::Exact(vec![0, 65535]));
        assert!(keys.ip4.may_have(Wanted::Range(4, 7)));
        assert!(!keys.ip4.may_have(Wanted::Range(4, 6)));
        assert!(keys.ip4.may_have(Wanted::Masked { value: 1, mask: 5 }), "9");
        assert!(!keys.ip4.may_have(Wanted::Masked { value: 4, mask: 5 }));
        assert_eq!(collector.take(1 << 20).ip4, Set::Exact(vec![]));
    }

    #[test]
    fn large_sets_find_all_and_little_else() {
        let mut collector = Collector::default();
        let key = |i: u32| i.wrapping_mul(0x9e37_79b1);
        for i in 0..4000 {
            collector.ip4(key(i));
        }
        // 4000 addresses take 16,000 bytes; with 12 bits each, 6,000.
        let keys = collector.take(1 << 20);
        assert!(matches!(keys.ip4, Set::Bloom(_)));
        assert!((0..4000).all(|i| keys.ip4.may_have(one(key(i)))));
        let wrong = (4000..104_000).filter(|i| keys.ip4.may_have(one(key(*i))));
        let wrong = wrong.count();
        assert!(
            (1..1000).contains(&wrong),
            "{wrong} of 100,000, at most 1 %"
        );
    }

    #[test]
    fn sets_keep_to_their_share() {
        for (addresses, len) in [(100, 1 << 14), (3000, 1 << 20), (50_000, 1 << 20)] {
            let mut collector = Collector::default();
            for i in 0..addresses {
                collector.ip4(i * 77);
                collector.ip6(u128::from(i) << 64);
                collector.port(u16::try_from(i % 65536).unwrap_or(0));
            }
            let keys = collector.take(len);
            let mut bytes = Vec::new();
            keys.put(&mut bytes);
            assert!(bytes.len() as u64 <= len / 128 + 15, "{addresses} in {len}");
            assert_eq!(Keys::take(&mut Fields(&bytes)), Some(keys));
        }
    }
}
