//! The sizes of frames on the command line.

use std::str::FromStr;

use ringtap_send::{MOST_SIZES, SMALLEST};

/// The sizes of frames in turn, in bytes, without the frame check sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sizes {
    given: Vec<u16>,
    /// A named mix. Sizes that are too small for the content are enlarged.
    is_named: bool,
}

/// The "Internet mix": of 12 packets, 7 have 40 bytes with their IP header, 4 have 576, 1 has 1500. Here
/// Ethernet's header and padding are added.
const IMIX: [u16; 12] = [60, 590, 60, 60, 590, 60, 1514, 60, 590, 60, 590, 60];

/// Invalid sizes.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected bytes of a frame from 60 to 65535, smallest, imix, sizes such as 60,590,1514, or a range such as \
     60-1514 or 64-1472:64 of at most 4096 sizes"
)]
pub(crate) struct SizesError;

impl FromStr for Sizes {
    type Err = SizesError;

    fn from_str(text: &str) -> Result<Self, SizesError> {
        let named = |sizes: &[u16]| Self {
            given: sizes.to_vec(),
            is_named: true,
        };
        match text {
            "smallest" => return Ok(named(&[SMALLEST])),
            "imix" => return Ok(named(&IMIX)),
            _ => {}
        }
        let sizes = match text.split_once('-') {
            Some((first, rest)) => range(first, rest)?,
            None => text.split(',').map(size).collect::<Result<_, _>>()?,
        };
        if sizes.is_empty() || sizes.len() > MOST_SIZES {
            return Err(SizesError);
        }
        Ok(Self {
            given: sizes,
            is_named: false,
        })
    }
}

fn range(first: &str, rest: &str) -> Result<Vec<u16>, SizesError> {
    let (last, step) = rest.split_once(':').unwrap_or((rest, "1"));
    let step: usize = step.parse().map_err(|_| SizesError)?;
    if step == 0 {
        return Err(SizesError);
    }
    Ok((size(first)?..=size(last)?).step_by(step).collect())
}

fn size(text: &str) -> Result<u16, SizesError> {
    let size = text.parse().ok();
    size.filter(|&size| size >= SMALLEST).ok_or(SizesError)
}

impl Sizes {
    /// Returns the sizes of frames that need this many bytes.
    pub(crate) fn at_least(&self, smallest: u16) -> Vec<u16> {
        let fitting = |&size: &u16| {
            if self.is_named {
                size.max(smallest)
            } else {
                size
            }
        };
        self.given.iter().map(fitting).collect()
    }
}

/// Returns the average size, in bytes.
pub(crate) fn mean(sizes: &[u16]) -> f64 {
    let total: f64 = sizes.iter().map(|&size| f64::from(size)).sum();
    #[expect(clippy::cast_precision_loss, reason = "at most 4096")]
    let count = sizes.len() as f64;
    total / count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_all_forms() {
        let parse = |text: &str| text.parse::<Sizes>().map(|sizes| sizes.at_least(80));
        assert_eq!(parse("64"), Ok(vec![64]));
        assert_eq!(parse("60,1514"), Ok(vec![60, 1514]));
        assert_eq!(parse("60-70:5"), Ok(vec![60, 65, 70]));
        assert_eq!(parse("60-1514").map(|sizes| sizes.len()), Ok(1455));
        let imix = "imix".parse::<Sizes>().expect("known");
        let (small, large) = (imix.at_least(60), imix.at_least(80));
        assert_eq!((small.len(), mean(&small).round()), (12, 358.0));
        assert_eq!(large.iter().filter(|&&size| size == 80).count(), 7);
        assert_eq!(parse("smallest"), Ok(vec![80]));
        for bad in [
            "", "59", "70-60", "60-70:0", "60-60000", "65536", "60,", "-60", "x",
        ] {
            assert_eq!(parse(bad), Err(SizesError), "{bad}");
        }
    }
}
