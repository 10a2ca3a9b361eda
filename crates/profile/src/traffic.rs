//! Packets where none are there: two network namespaces of one's own, a virtual wire between them, and a
//! generator at one end. Both go when this is dropped, or its process dies.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

use ringtap_capture::Waker;
use ringtap_capture::send::{
    Arrivals, BackEndKind, Demand, Generation, Report, SendOptions, Sender, Template,
    TemplateOptions,
};
use ringtap_lab::netns::{Side, VethOptions, VethPair};
use ringtap_sys::{cycles, sched};

use crate::{Error, Result};

/// Nobody profiles for longer.
const LONGEST: Duration = Duration::from_secs(86_400);

/// What is generated.
#[derive(Clone, Debug, PartialEq)]
pub struct Traffic {
    /// Bytes of each frame.
    pub size: u16,
    /// Packets per second; nothing for as many as can be.
    pub per_second: Option<f64>,
    /// Flows that the packets belong to in turn.
    pub flows: u32,
    /// The processor that generates, and so also receives: veth hands packets over on the one that
    /// sends them.
    pub cpu: Option<usize>,
    /// Processors to which received packets are handed on (RPS), a bit for each.
    pub receive_mask: Option<u64>,
}

impl Default for Traffic {
    /// As many packets of 60 bytes as can be, of one flow: the hardest case.
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
    /// Makes it; what arrives is handed on to those processors, where some are named (a bit for each).
    /// Needs `CAP_SYS_ADMIN` and `CAP_NET_ADMIN`.
    ///
    /// # Errors
    /// The system forbids it.
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

    /// Moves the calling thread to where packets arrive.
    ///
    /// # Errors
    /// The system forbids it.
    pub fn enter(&self) -> Result<()> {
        Ok(self.0.right.namespace.enter()?)
    }

    /// The name of the end where packets arrive.
    #[must_use]
    pub fn receiving(&self) -> &str {
        &self.0.right.device
    }

    /// Begins to send.
    ///
    /// # Errors
    /// There is no such sender here.
    pub fn generate(&self, traffic: &Traffic) -> Result<Generator> {
        let template = Template::new(&TemplateOptions {
            sizes: vec![traffic.size],
            flows: traffic.flows,
            ..TemplateOptions::default()
        })?;
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
                        // Whoever waits for it is there.
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
    let options = SendOptions {
        demand: Some(Demand {
            longest: template.longest(),
            per_second,
        }),
        ..SendOptions::default()
    };
    Ok(Sender::open(&side.device, &options)?)
}

/// A generator at work; dropping it ends it.
#[derive(Debug)]
pub struct Generator {
    waker: Waker,
    id: u32,
    back_end: BackEndKind,
    thread: Option<JoinHandle<Result<Option<Report>>>>,
}

impl Generator {
    /// The kernel's number of the thread that sends.
    #[must_use]
    pub fn thread(&self) -> u32 {
        self.id
    }

    /// What sends.
    #[must_use]
    pub fn back_end(&self) -> BackEndKind {
        self.back_end
    }

    /// Ends it.
    ///
    /// # Errors
    /// What kept it from sending.
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
            // What it would say is said by `stop`.
            let _ = thread.join();
        }
    }
}
