//! The options of the output.

/// Selects the form in which the time of a packet is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum TimestampFormat {
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
    /// Returns the form for this number of `-t` on tcpdump's command line; more than five count as five.
    #[must_use]
    pub const fn from_count(count: u8) -> Self {
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

/// Selects the form in which the bytes of a packet follow its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DumpForm {
    /// Hexadecimal (`-x`).
    Hex,
    /// Hexadecimal and ASCII (`-X`).
    HexAscii,
    /// Text only (`-A`).
    Ascii,
}

/// Selects the bytes that are printed under a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BytesDump {
    /// The form of each row.
    pub form: DumpForm,
    /// Whether the link-layer header is printed too (the letter given twice).
    pub link_header: bool,
}

impl BytesDump {
    /// Returns the dump for these numbers of `-x`, `-X` and `-A`, `None` if all are 0. `-X`
    /// overrides `-x`, and both override `-A`.
    #[must_use]
    pub const fn from_counts(hex: u8, hex_ascii: u8, ascii: u8) -> Option<Self> {
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

ringtap_packet::options! {
    /// Selects how a packet is printed; the default is a line like that of `tcpdump -n`.
    ///
    /// ```
    /// let options = ringtap_print::PrintOptions::default().verbose(1);
    /// ```
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct PrintOptions {
        /// Whether the link-layer header is printed (`-e`).
        pub link_header: bool,
        /// The form in which the packet's bytes follow (`-x`, `-X`, `-A`), `None` for no dump.
        pub dump: Option<BytesDump>,
        /// The level of detail (0, 1 for `-v`, 2 for `-vv`).
        pub verbose: u8,
        /// Whether less of the protocols is printed (`-q`).
        pub quiet: bool,
        /// Whether checksums of IPv4, TCP and UDP are not verified (`-K`).
        pub skip_checksums: bool,
        /// The form of the time (`-t` to `-ttttt`).
        pub timestamps: TimestampFormat,
        /// Whether the second has nine digits instead of six (`--nano`).
        pub nanos: bool,
        /// Whether TCP sequence numbers are printed as they are in the packet (`-S`).
        pub absolute_seq: bool,
        /// Whether each packet is a JSON object instead of a line of text.
        pub json: bool,
        /// Whether each line begins with the packet's number (`-#`).
        pub number: bool,
        /// Whether the process of each packet is printed, if it was recorded; JSON always has it.
        pub processes: bool,
    }
}
