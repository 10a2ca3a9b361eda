//! The adapter's stamps, or the host's if there are none.

use ringtap_filter::ebpf::Assembler;

use super::{Tap, add, offset, slot};
use crate::hook::StampReader;
use crate::options::Stage;
use ringtap_sys::tap::layout;

impl Tap<'_> {
    /// Puts the stamp into slot TIME.
    pub(super) fn stamp_by_adapter(&self, stamps: StampReader, asm: &mut Assembler) {
        let (by_host, done) = (asm.label(), asm.label());
        stamps.write_read(self.place, slot::TIME, by_host, asm);
        if stamps.serves(self.place) && self.place.is_ingress() {
            asm.jump(done);
        }
        asm.place(by_host);
        if self.stage == Stage::Copy {
            add(
                ringtap_filter::ebpf::Reg::R8,
                offset(layout::BY_HOST),
                1,
                asm,
            );
        }
        self.stamp_by_host(asm);
        asm.place(done);
    }
}
