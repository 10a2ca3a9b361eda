//! The private enterprise number of ringtap's own elements.

use std::fmt;
use std::str::FromStr;

use super::{NTOP_PEN, OWN_PEN, REVERSE_PEN};

/// Numbers whose elements have a meaning already, for collectors or for ringtap itself, and their owners.
const TAKEN: [(u32, &str); 7] = [
    (0, "IANA's registry"),
    (9, "Cisco"),
    (5951, "Citrix"),
    (6871, "CERT"),
    (6876, "VMware"),
    (REVERSE_PEN, "RFC 5103"),
    (NTOP_PEN, "ntop"),
];

/// The private enterprise number of the elements that neither IANA's registry nor ntop has.
///
/// It is [`OWN_PEN`] unless the user has registered a number of the own organisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Enterprise(u32);

/// An enterprise number that ringtap's elements can't have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EnterpriseError {
    /// The text is not a number of 32 bits.
    #[error("expected a private enterprise number of IANA, from 1 to 4294967295")]
    NotANumber,
    /// Elements of that number have another meaning.
    #[error("elements of enterprise {number} are those of {owner}: use a number of your own")]
    Taken {
        /// The number.
        number: u32,
        /// The owner of its elements.
        owner: &'static str,
    },
}

impl Enterprise {
    /// Returns the enterprise with this number.
    ///
    /// # Errors
    /// The elements of that number have another meaning.
    pub fn new(number: u32) -> Result<Self, EnterpriseError> {
        match TAKEN.iter().find(|(taken, _)| *taken == number) {
            Some(&(number, owner)) => Err(EnterpriseError::Taken { number, owner }),
            None => Ok(Self(number)),
        }
    }

    /// Returns the number.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }
}

impl Default for Enterprise {
    /// Returns the number that is reserved for examples.
    fn default() -> Self {
        Self(OWN_PEN)
    }
}

impl fmt::Display for Enterprise {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for Enterprise {
    type Err = EnterpriseError;

    fn from_str(text: &str) -> Result<Self, EnterpriseError> {
        let number = text.parse().map_err(|_| EnterpriseError::NotANumber)?;
        Self::new(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_other_elements_are_rejected() {
        assert_eq!("54321".parse().map(Enterprise::number), Ok(54_321));
        assert_eq!(
            Enterprise::new(u32::MAX).map(Enterprise::number),
            Ok(u32::MAX)
        );
        for (text, reason) in [
            (
                "0",
                "elements of enterprise 0 are those of IANA's registry: use a number of your own",
            ),
            (
                "35632",
                "elements of enterprise 35632 are those of ntop: use a number of your own",
            ),
            (
                "29305",
                "elements of enterprise 29305 are those of RFC 5103: use a number of your own",
            ),
            (
                "-1",
                "expected a private enterprise number of IANA, from 1 to 4294967295",
            ),
            (
                "4294967296",
                "expected a private enterprise number of IANA, from 1 to 4294967295",
            ),
        ] {
            let error = text.parse::<Enterprise>().expect_err(text);
            assert_eq!(error.to_string(), reason);
        }
    }
}
