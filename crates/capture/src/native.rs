//! Native code of filters. Empty if the crate is built without its feature `jit`.

#[cfg(feature = "jit")]
pub(crate) use ringtap_jit::{Native, PacketRef};

#[cfg(not(feature = "jit"))]
pub(crate) use none::{Native, PacketRef};

/// Stands in for native code in builds without it.
#[cfg(not(feature = "jit"))]
mod none {
    use std::marker::PhantomData;

    use ringtap_filter::Program;

    /// There is no native code.
    #[derive(Debug)]
    pub(crate) enum Native {}

    /// A packet in a batch.
    #[derive(Clone, Copy, Debug)]
    pub(crate) struct PacketRef<'a>(PhantomData<&'a [u8]>);

    /// Never returns native code.
    #[derive(Debug)]
    pub(crate) struct NoGenerator;

    impl Native {
        pub(crate) fn compile(_program: &Program) -> Result<Self, NoGenerator> {
            Err(NoGenerator)
        }

        pub(crate) fn run(&self, _data: &[u8], _len: u32) -> u32 {
            match *self {}
        }

        pub(crate) fn run_batch(&self, _packets: &[PacketRef<'_>], _verdicts: &mut [u32]) {
            match *self {}
        }
    }

    impl<'a> PacketRef<'a> {
        pub(crate) fn new(_data: &'a [u8], _len: u32) -> Self {
            Self(PhantomData)
        }
    }
}
