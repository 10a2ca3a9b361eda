//! The components on a packet's path.

use ringtap_capture::ProgramPart;
use serde::{Deserialize, Serialize};

/// A component on a packet's path from the wire to the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Component {
    /// Interrupts and the interface's driver.
    Driver,
    /// The socket buffer, and the protocols that look at it.
    Stack,
    /// The tap itself: the call, finding the ring, making and publishing the record.
    Tap,
    /// The filter.
    Filter,
    /// Reading the clock.
    Timestamp,
    /// Copying the packet into the ring.
    Copy,
    /// Wake-ups and system calls.
    Wake,
    /// Walking the ring in user space.
    Reader,
    /// The application's work on each packet.
    Application,
}

/// All components, in the order of the path.
pub const COMPONENTS: [Component; 9] = [
    Component::Driver,
    Component::Stack,
    Component::Tap,
    Component::Filter,
    Component::Timestamp,
    Component::Copy,
    Component::Wake,
    Component::Reader,
    Component::Application,
];

impl Component {
    /// Returns the index in [`COMPONENTS`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the name for tables.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Driver => "interrupt and driver",
            Self::Stack => "skb and stack",
            Self::Tap => "tap hook",
            Self::Filter => "filter",
            Self::Timestamp => "timestamp",
            Self::Copy => "copy into the ring",
            Self::Wake => "wake-ups, system calls",
            Self::Reader => "reader",
            Self::Application => "application",
        }
    }
}

impl From<ProgramPart> for Component {
    fn from(part: ProgramPart) -> Self {
        match part {
            ProgramPart::Tap => Self::Tap,
            ProgramPart::Filter => Self::Filter,
            ProgramPart::Timestamp => Self::Timestamp,
            ProgramPart::Copy => Self::Copy,
            ProgramPart::Wake => Self::Wake,
        }
    }
}
