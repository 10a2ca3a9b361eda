//! Sizes of frames as the command line gives them.

use std::str::FromStr;

use ringtap_capture::send::{MOST_SIZES, SMALLEST};

/// Bytes of frames, in turn, without the frame check sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sizes(pub(crate) Vec<u16>);

/// Of 12 packets of the "Internet mix" 7 have 40 bytes with their IP header, 4 have 576, 1 has 1500;
/// here with Ethernet's header and its padding.
const IMIX: [u16; 12] = [60, 590, 60, 60, 590, 60, 1514, 60, 590, 60, 590, 60];

/// Sizes that cannot be.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected bytes of a frame from 60 to 65535, imix, sizes such as 60,590,1514, or a range such as \
     60-1514 or 64-1472:64 of at most 4096 sizes"
)]
pub(crate) struct SizesError;

impl FromStr for Sizes {
    type Err = SizesError;

    fn from_str(text: &str) -> Result<Self, SizesError> {
        if text == "imix" {
            return Ok(Self(IMIX.to_vec()));
        }
        let sizes = match text.split_once('-') {
            Some((first, rest)) => range(first, rest)?,
            None => text.split(',').map(size).collect::<Result<_, _>>()?,
        };
        if sizes.is_empty() || sizes.len() > MOST_SIZES {
            return Err(SizesError);
        }
        Ok(Self(sizes))
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
    /// Bytes in the mean.
    pub(crate) fn mean(&self) -> f64 {
        let total: f64 = self.0.iter().map(|&size| f64::from(size)).sum();
        #[expect(clippy::cast_precision_loss, reason = "at most 4096")]
        let count = self.0.len() as f64;
        total / count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_all_forms() {
        let parse = |text: &str| text.parse::<Sizes>().map(|sizes| sizes.0);
        assert_eq!(parse("64"), Ok(vec![64]));
        assert_eq!(parse("60,1514"), Ok(vec![60, 1514]));
        assert_eq!(parse("60-70:5"), Ok(vec![60, 65, 70]));
        assert_eq!(parse("60-1514").map(|sizes| sizes.len()), Ok(1455));
        let imix = "imix".parse::<Sizes>().expect("known");
        assert_eq!((imix.0.len(), imix.mean().round()), (12, 358.0));
        for bad in [
            "", "59", "70-60", "60-70:0", "60-60000", "65536", "60,", "-60", "x",
        ] {
            assert_eq!(parse(bad), Err(SizesError), "{bad}");
        }
    }
}
