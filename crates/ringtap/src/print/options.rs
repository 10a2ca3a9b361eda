//! What the caller chooses about the output.

/// How the time of a packet is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TimestampFormat {
    /// Local time of day, `09:46:40.123456`.
    #[default]
    TimeOfDay,
    /// No time (`-t`).
    None,
    /// Seconds since the epoch (`-tt`).
    Epoch,
    /// Time since the previous packet (`-ttt`).
    SincePrevious,
    /// Local date and time (`-tttt`).
    DateTime,
    /// Time since the first packet (`-ttttt`).
    SinceFirst,
}

impl TimestampFormat {
    /// The form that a number of `-t` on the command line selects; more than five are five.
    #[must_use]
    pub(crate) const fn from_count(count: u8) -> Self {
        match count {
            0 => Self::TimeOfDay,
            1 => Self::None,
            2 => Self::Epoch,
            3 => Self::SincePrevious,
            4 => Self::DateTime,
            _ => Self::SinceFirst,
        }
    }
}

/// The form in which the bytes of a packet follow its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DumpForm {
    /// Hexadecimal (`-x`).
    Hex,
    /// Hexadecimal and ASCII (`-X`).
    HexAscii,
    /// Text only (`-A`).
    Ascii,
}

/// The bytes printed under a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BytesDump {
    /// The form.
    pub(crate) form: DumpForm,
    /// With the link-layer header (the letter given twice).
    pub(crate) link_header: bool,
}

impl BytesDump {
    /// The dump that the numbers of `-x`, `-X` and `-A` select: `-X` goes before `-x`, both
    /// before `-A`.
    #[must_use]
    pub(crate) const fn from_counts(hex: u8, hex_ascii: u8, ascii: u8) -> Option<Self> {
        let (form, count) = match (hex, hex_ascii, ascii) {
            (0, 0, 0) => return None,
            (_, 1.., _) => (DumpForm::HexAscii, hex_ascii),
            (1.., 0, _) => (DumpForm::Hex, hex),
            (0, 0, _) => (DumpForm::Ascii, ascii),
        };
        Some(Self {
            form,
            link_header: count > 1,
        })
    }
}

/// Everything that decides how a packet is printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PrintOptions {
    /// The link-layer header (`-e`).
    pub(crate) link_header: bool,
    /// The packet's bytes (`-x`, `-X`, `-A`).
    pub(crate) dump: Option<BytesDump>,
    /// How much detail (`-v`, `-vv`).
    pub(crate) verbose: u8,
    /// Less of the protocols (`-q`).
    pub(crate) quiet: bool,
    /// Checksums of IPv4, TCP and UDP are not verified.
    pub(crate) skip_checksums: bool,
    /// The time (`-t` …).
    pub(crate) timestamps: TimestampFormat,
    /// Nine digits of the second instead of six.
    pub(crate) nanos: bool,
    /// TCP sequence numbers as they stand in the packet (`-S`).
    pub(crate) absolute_seq: bool,
    /// One JSON object per packet instead of a line of text.
    pub(crate) json: bool,
    /// A packet number before each line (`-#`).
    pub(crate) number: bool,
}
