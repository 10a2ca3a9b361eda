//! Sets of small numbers as bits of words, and ranges in them.

/// The number of bits in a word.
const WORD: usize = u64::BITS as usize;

/// Returns the number of words for this many bits.
pub(super) fn words(bits: usize) -> usize {
    bits.div_ceil(WORD)
}

/// Returns the words that a range touches, each with the range's bits in it.
fn masks(from: usize, to: usize) -> impl Iterator<Item = (usize, u64)> {
    let (first, end) = (from / WORD, to.div_ceil(WORD));
    (first..end).filter(move |_| from < to).map(move |word| {
        let low = from.saturating_sub(word * WORD);
        let high = (to - word * WORD).min(WORD);
        (word, u64::MAX << low & u64::MAX >> (WORD - high))
    })
}

/// Returns the mask of a range that is not empty and lies in the first word, as in most sets.
#[inline]
fn in_first(from: usize, to: usize) -> Option<u64> {
    (from < to && to <= WORD).then(|| u64::MAX << from & u64::MAX >> (WORD - to))
}

/// Returns whether the set contains any number of `from..to`.
#[inline]
pub(super) fn any(set: &[u64], from: usize, to: usize) -> bool {
    if let (Some(mask), Some(word)) = (in_first(from, to), set.first()) {
        return word & mask != 0;
    }
    masks(from, to).any(|(word, mask)| set[word] & mask != 0)
}

/// Returns whether the set contains all numbers of `from..to`.
#[inline]
pub(super) fn all(set: &[u64], from: usize, to: usize) -> bool {
    if let (Some(mask), Some(word)) = (in_first(from, to), set.first()) {
        return word & mask == mask;
    }
    masks(from, to).all(|(word, mask)| set[word] & mask == mask)
}

/// Removes `from..to` from the set.
#[inline]
pub(super) fn remove(set: &mut [u64], from: usize, to: usize) {
    if let (Some(mask), Some(word)) = (in_first(from, to), set.first_mut()) {
        *word &= !mask;
        return;
    }
    for (word, mask) in masks(from, to) {
        set[word] &= !mask;
    }
}

/// Adds `from..to` to the set.
pub(super) fn insert(set: &mut [u64], from: usize, to: usize) {
    for (word, mask) in masks(from, to) {
        set[word] |= mask;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_over_word_boundaries() {
        for (from, to) in [
            (0, 0),
            (0, 64),
            (3, 5),
            (60, 70),
            (64, 128),
            (1, 191),
            (191, 192),
        ] {
            let mut set = vec![0; words(192)];
            insert(&mut set, from, to);
            let inside = |n: usize| (from..to).contains(&n);
            for n in 0..192 {
                assert_eq!(any(&set, n, n + 1), inside(n), "{n} of {from}..{to}");
            }
            assert!(all(&set, from, to));
            assert_eq!(any(&set, 0, 192), from < to);
            remove(&mut set, from, to);
            assert!(!any(&set, 0, 192));
        }
    }
}
