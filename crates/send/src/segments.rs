//! Frames of a template handed over many at a time, as one datagram that the kernel or the adapter cuts
//! ([`SendOptions::segmentation`](crate::SendOptions::segmentation)).

use ringtap_capture::hook::HookDevice;
use ringtap_sys::packet::{MOST_SEGMENTS, Refused, SegmentSender, Segments, SenderOptions};

use crate::frames::now;
use crate::{Result, SendError, Template};

/// The longest packet that IP has.
const LONGEST_PACKET: usize = u16::MAX as usize;
/// Memory of frames on their way to the driver, in bytes.
const BUFFER: u32 = 1 << 20;

/// A socket for datagrams to be cut, and their content.
pub(crate) struct Segmented {
    pub(crate) socket: SegmentSender,
    device: String,
    made: Option<Made>,
}

/// The memory for one template's datagrams.
struct Made {
    template: Template,
    head: Vec<u8>,
    payloads: Vec<u8>,
    /// Bytes of a payload.
    each: usize,
}

impl Segmented {
    pub(crate) fn open(device: &HookDevice) -> Result<Self> {
        let socket = SegmentSender::open(&SenderOptions {
            device: &device.name,
            ifindex: device.index,
            qdisc_bypass: false,
            buffer: Some(BUFFER),
        });
        Ok(Self {
            socket: socket.map_err(|source| SendError::of_call(&device.name, source))?,
            device: device.name.clone(),
            made: None,
        })
    }

    /// Allocates memory for the datagrams of a template.
    ///
    /// # Errors
    /// Its frames differ in more than payloads.
    pub(crate) fn prepare(&mut self, template: &Template) -> Result<()> {
        if template.flows != 1 || template.sizes.len() != 1 {
            return Err(SendError::Unsuitable {
                device: self.device.clone(),
                back_end: "packet",
                reason: "frames that the kernel cuts are of one size and one flow".to_owned(),
            });
        }
        let head_len = template.layout.mark();
        let each = template.longest() - head_len;
        let most = ((LONGEST_PACKET - head_len) / each).clamp(1, MOST_SEGMENTS);
        self.made = Some(Made {
            head: template.frame[..head_len].to_vec(),
            payloads: template.frame[head_len..].repeat(most),
            each,
            template: template.clone(),
        });
        Ok(())
    }

    /// Makes up to this many frames and hands them over. Returns their number and the result, or `None` if
    /// they cannot be handed over together.
    pub(crate) fn send(
        &mut self,
        first: u64,
        count: usize,
    ) -> Option<(usize, std::result::Result<(), Refused>)> {
        let made = self.made.as_mut()?;
        let count = count.min(made.payloads.len() / made.each);
        if count < 2 {
            return None;
        }
        let segments = made.fill(first, count);
        Some((count, self.socket.send(&segments)))
    }
}

impl Made {
    fn fill(&mut self, first: u64, count: usize) -> Segments<'_> {
        let len = count * self.each;
        self.template.write_head(len, &mut self.head);
        let nanos = now();
        let payloads = &mut self.payloads[..len];
        for (number, payload) in (first..).zip(payloads.chunks_exact_mut(self.each)) {
            self.template.write_mark(number, nanos, payload);
        }
        Segments {
            head: &self.head,
            udp: self.template.layout.udp_offset(),
            payloads: &self.payloads[..len],
            // A frame's length has 16 bits.
            each: u16::try_from(self.each).unwrap_or(u16::MAX),
        }
    }
}
