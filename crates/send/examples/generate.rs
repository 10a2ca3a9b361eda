//! How many frames a second a back-end makes at top speed: `generate DEV [SIZE]`.

use std::time::Duration;

use ringtap_send::{Arrivals, Generation, SendOptions, Sender, Template, TemplateOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let device = arguments.next().ok_or("a device is missing")?;
    let size = arguments.next().map_or(Ok(60), |size| size.parse())?;
    let mut options = TemplateOptions::default();
    options.sizes = vec![size];
    let template = Template::new(&options)?;
    let mut sender = Sender::open(&device, &SendOptions::default())?;
    let generation = Generation {
        count: None,
        duration: Some(Duration::from_secs(2)),
    };
    let report = sender.generate(&template, Arrivals::TopSpeed, &generation, |_| ())?;
    let seconds = report.elapsed.as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "shown with few digits")]
    let rate = report.packets as f64 / seconds / 1e6;
    println!(
        "{} {}: {rate:.3} Mpackets/s",
        device,
        sender.back_end().0.verb()
    );
    Ok(())
}
