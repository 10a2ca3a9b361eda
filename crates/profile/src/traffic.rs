//! Generated packets: two network namespaces, a virtual wire between them, and a generator at one
//! end. Dropping them, or the end of the process, removes both namespaces.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use ringtap_capture::Waker;
use ringtap_lab::netns::{Side, VethOptions, VethPair};
use ringtap_send::{
    Arrivals, BackEndKind, Demand, Generation, Report, SendOptions, Sender, Template,
    TemplateOptions,
};
use ringtap_sys::{cycles, sched};

use crate::{Error, Result};

/// The longest time that a generator runs.
const LONGEST: Duration = Duration::from_secs(86_400);

/// The packets to generate.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Bytes of each frame.
    pub size: u16,
    /// Packets per second; `None` for the maximum rate.
    pub per_second: Option<f64>,
    /// The number of flows, to which the packets belong in turn.
    pub flows: u32,
    /// The processor that generates, and also receives: veth delivers packets on the processor that
    /// sends them.
    pub cpu: Option<usize>,
    /// Processors that handle received packets (RPS), a bit for each.
    pub receive_mask: Option<u64>,
}

impl Default for Traffic {
    /// Returns packets of 60 bytes at the maximum rate, in one flow: the hardest case.
    fn default() -> Self {
        Self {
            size: 60,
            per_second: None,
            flows: 1,
            cpu: None,
            receive_mask: None,
        }
    }
}

/// Two namespaces with a wire between them.
#[derive(Debug)]
pub struct Wire(VethPair);

impl Wire {
    /// Creates the namespaces and the wire. The processors of `receive_mask` handle received
    /// packets (a bit for each). Needs `CAP_SYS_ADMIN` and `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// Returns an error if the system forbids it.
    pub fn new(receive_mask: Option<u64>) -> Result<Self> {
        let pair = VethPair::try_with(&VethOptions {
            ipv4: false,
            static_neighbours: false,
            receive_mask,
            ..VethOptions::default()
        })?;
        pair.right.take_frames()?;
        Ok(Self(pair))
    }

    /// Moves the calling thread to the namespace where packets arrive.
    ///
    /// # Errors
    /// Returns an error if the system forbids it.
    pub fn enter(&self) -> Result<()> {
        Ok(self.0.right.namespace.enter()?)
    }

    /// Returns the name of the interface where packets arrive.
    #[must_use]
    pub fn receiving(&self) -> &str {
        &self.0.right.device
    }

    /// Starts sending.
    ///
    /// # Errors
    /// Returns an error if the sender cannot be opened.
    pub fn generate(&self, traffic: &Traffic) -> Result<Generator> {
        let mut options = TemplateOptions::default();
        options.sizes = vec![traffic.size];
        options.flows = traffic.flows;
        let template = Template::new(&options)?;
        let arrivals =
            traffic
                .per_second
                .map_or(Arrivals::TopSpeed, |per_second| Arrivals::Constant {
                    per_second,
                });
        let (tell, told) = mpsc::channel();
        let (side, cpu) = (self.0.left.clone(), traffic.cpu);
        let thread = std::thread::Builder::new()
            .name("generator".to_owned())
            .spawn(move || {
                let opened = open(&side, cpu, &template, arrivals.rate());
                let mut sender = match opened {
                    Ok(sender) => sender,
                    Err(error) => {
                        // The receiver is still waiting.
                        let _ = tell.send(Err(error));
                        return Ok(None);
                    }
                };
                let _ = tell.send(Ok((
                    sender.waker(),
                    cycles::thread_id(),
                    sender.back_end().0,
                )));
                let generation = Generation {
                    count: None,
                    duration: Some(LONGEST),
                };
                sender
                    .generate(&template, arrivals, &generation, |_| ())
                    .map(Some)
                    .map_err(Error::from)
            });
        let thread =
            thread.map_err(|source| ringtap_sys::Error::new("clone", "generator", source))?;
        let (waker, id, back_end) = told.recv().map_err(|_| Error::Thread("generator"))??;
        Ok(Generator {
            waker,
            id,
            back_end,
            thread: Some(thread),
        })
    }
}

fn open(
    side: &Side,
    cpu: Option<usize>,
    template: &Template,
    per_second: Option<f64>,
) -> Result<Sender> {
    side.namespace.enter()?;
    if let Some(cpu) = cpu {
        sched::set_affinity(&[cpu])?;
    }
    let mut options = SendOptions::default();
    options.demand = Some(Demand {
        longest: template.longest(),
        per_second,
    });
    Ok(Sender::open(&side.device, &options)?)
}

/// A running generator; dropping it stops it.
#[derive(Debug)]
pub struct Generator {
    waker: Waker,
    id: u32,
    back_end: BackEndKind,
    thread: Option<JoinHandle<Result<Option<Report>>>>,
}

impl Generator {
    /// Returns the kernel's id of the thread that sends.
    #[must_use]
    pub fn thread(&self) -> u32 {
        self.id
    }

    /// Returns the back-end that sends.
    #[must_use]
    pub fn back_end(&self) -> BackEndKind {
        self.back_end
    }

    /// Stops the generator.
    ///
    /// # Errors
    /// Returns the error that ended sending.
    pub fn stop(mut self) -> Result<()> {
        self.waker.wake();
        let thread = self.thread.take();
        let ended = thread.map(JoinHandle::join).transpose();
        ended.map_err(|_| Error::Thread("generator"))?.transpose()?;
        Ok(())
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // `stop` reports its errors.
            let _ = thread.join();
        }
    }
}
