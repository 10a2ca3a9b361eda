//! A profile as a text table.

use std::fmt::Write as _;

use crate::report::{Effect, Figure, Report, Sampling, Unexplained, ratio, to_f64};
use crate::{COMPONENTS, Component};

/// The width of the bars, in characters.
const BAR: f64 = 30.0;

/// Returns a profile as text, beside an earlier one if there is one.
#[must_use]
pub fn profile(report: &Report, baseline: Option<&Report>) -> String {
    let mut text = head(report);
    // Writing to a string does not fail.
    let _ = table(&mut text, report, baseline);
    text.push('\n');
    let _ = beside(&mut text, report);
    let _ = steps(&mut text, report);
    let _ = functions(&mut text, report);
    let _ = method(&mut text, report);
    let _ = advice(&mut text, report);
    text
}

fn head(report: &Report) -> String {
    let mut text = format!(
        "{} on {} ({}), {}\n",
        report.engine, report.device, report.hook, report.traffic
    );
    let settings = &report.settings;
    let filter = if settings.filter.is_empty() {
        "no filter".to_owned()
    } else {
        format!("filter {}", settings.filter)
    };
    let packets = &report.packets;
    let lost = packets.dropped_ring.map(|lost| lost.to_string());
    let lost = lost.as_deref().unwrap_or("unknown");
    let _ = writeln!(
        text,
        "{filter}; snaplen {}; ring {} KiB; {:.1} s, {} packets ({:.0}/s), {} delivered, lost in the ring: {lost}",
        settings.snaplen,
        settings.buffer >> 10,
        report.seconds,
        packets.interface,
        report.rates.packets_per_second,
        packets.captured,
    );
    text
}

fn table(text: &mut String, report: &Report, baseline: Option<&Report>) -> std::fmt::Result {
    writeln!(text)?;
    write!(
        text,
        "{:<22} {:>9} {:>15} {:>9} {:>7}",
        "per packet", "ns", "95 %", "cycles", "share"
    )?;
    if baseline.is_some() {
        write!(text, " {:>9} {:>8}", "before", "change")?;
    }
    writeln!(text)?;
    for part in &report.components {
        let before = baseline.map(|before| before.ns(part.component));
        line(text, part.component.title(), part.cost, part.share, before)?;
        writeln!(text)?;
    }
    let Unexplained { ns, share, .. } = report.unexplained;
    let cycles = ns * report.method.ticks_per_ns;
    if report.method.sampling.is_some() && is_known(report) {
        write!(
            text,
            "{:<22} {ns:>9.1} {:>15} {cycles:>9.0} {:>6.1}%",
            "unexplained",
            "",
            100.0 * share
        )?;
        if let Some(before) = baseline {
            change(text, Some(before.unexplained.ns), Some(ns))?;
        }
        writeln!(text)?;
    }
    let title = if report.method.sampling.is_some() {
        "total"
    } else {
        "total of the known parts"
    };
    line(
        text,
        title,
        is_known(report).then_some(report.total),
        Some(1.0),
        baseline.map(|before| Some(before.total.ns)),
    )?;
    writeln!(text)
}

/// Returns whether there is a total: without packets there is no cost.
fn is_known(report: &Report) -> bool {
    report.components.iter().any(|part| part.cost.is_some())
}

fn line(
    text: &mut String,
    title: &str,
    cost: Option<Figure>,
    share: Option<f64>,
    before: Option<Option<f64>>,
) -> std::fmt::Result {
    match cost {
        None => write!(
            text,
            "{title:<22} {:>9} {:>15} {:>9} {:>7}",
            "unknown", "", "", ""
        )?,
        Some(cost) => {
            let range = format!("{:.1} – {:.1}", cost.low_ns, cost.high_ns);
            let percent = share.map_or_else(String::new, |share| format!("{:.1}%", 100.0 * share));
            write!(
                text,
                "{title:<22} {:>9.1} {range:>15} {:>9.0} {percent:>7}",
                cost.ns, cost.cycles
            )?;
        }
    }
    if let Some(before) = before {
        return change(text, before, cost.map(|cost| cost.ns));
    }
    if title != "total" && !title.starts_with("total of") {
        let width = share.unwrap_or_default() * BAR;
        write!(text, "  {}", bar(width))?;
    }
    Ok(())
}

fn bar(width: f64) -> String {
    let mut bar = String::new();
    let mut left = width;
    while left >= 0.5 {
        bar.push('█');
        left -= 1.0;
    }
    bar
}

fn change(text: &mut String, before: Option<f64>, now: Option<f64>) -> std::fmt::Result {
    match (before, now) {
        (Some(before), Some(now)) => write!(text, " {before:>9.1} {:>+8.1}", now - before),
        (Some(before), None) => write!(text, " {before:>9.1} {:>8}", "unknown"),
        (None, _) => write!(text, " {:>9} {:>8}", "unknown", ""),
    }
}

fn beside(text: &mut String, report: &Report) -> std::fmt::Result {
    let mut row = |title: &str, value: Option<f64>, digits: usize, unit: &str| {
        let known = value.map(|value| format!("{value:.digits$}"));
        let value = known.as_deref().unwrap_or("unknown");
        writeln!(text, "{title:<32} {value:>12}{unit}")
    };
    let rates = &report.rates;
    let interrupts = rates.interrupts_per_second;
    let softirqs = rates.receive_softirqs_per_second;
    let calls = rates.system_calls_per_packet;
    let wake_ups = Some(rates.wake_ups_per_packet);
    let clock = &report.reader_clock;
    let (in_blocks, user) = (Some(clock.in_blocks_ns), Some(clock.user_ns));
    let delivered = " ns a packet delivered, in blocks";
    let kernel = clock.system_ns;
    let charged = format!(" ns a packet in user space, {kernel:.1} in the kernel");
    row("interrupts of the interface", interrupts, 0, " /s")?;
    row("receive softirqs (all)", softirqs, 0, " /s")?;
    row(
        "packets per poll of a driver",
        rates.packets_per_poll,
        1,
        "",
    )?;
    row("packets per delivery", rates.packets_per_block, 0, "")?;
    row("system calls per packet", calls, 5, "")?;
    row("wake-ups per packet", wake_ups, 5, "")?;
    row("reader by its own clock", in_blocks, 1, delivered)?;
    row("reader by the kernel's accounts", user, 1, &charged)
}

fn steps(text: &mut String, report: &Report) -> std::fmt::Result {
    if report.steps.is_empty() {
        return Ok(());
    }
    let is_socket = report.steps[0].stage == "none";
    let what = if is_socket {
        "the capture cut short, processor time of the thread that generates and receives"
    } else {
        "the tap's program cut short"
    };
    writeln!(
        text,
        "\n{what} (median of {} rounds, lowest – highest)",
        report.steps[0].rounds
    )?;
    for step in &report.steps {
        let title = match step.stage.as_str() {
            "none" => "no capture".to_owned(),
            "hook" => "hook only".to_owned(),
            "ring" if is_socket => "+ ring, stamp".to_owned(),
            stage => format!("+ {stage}"),
        };
        let Figure {
            ns,
            low_ns,
            high_ns,
            ..
        } = step.run;
        write!(
            text,
            "{title:<14} {ns:>8.1} ns a packet ({low_ns:.1} – {high_ns:.1})"
        )?;
        match step.more {
            None if is_socket => write!(text, ", making the packet included")?,
            None => write!(text, ", of it the statistics' own two readings of a clock")?,
            Some(more) => write!(
                text,
                ", {:+.1} ns ({:.1} – {:.1})",
                more.ns, more.low_ns, more.high_ns
            )?,
        }
        if step.lost > 0 {
            let percent = 100.0 * ratio(to_f64(step.lost), to_f64(step.runs));
            write!(text, "; {percent:.1} % found no room and were not copied")?;
        }
        writeln!(text)?;
    }
    beside_samples(text, report, is_socket)
}

/// Compares the two methods where both have a value for the same work.
fn beside_samples(text: &mut String, report: &Report, is_socket: bool) -> std::fmt::Result {
    if report.method.sampling.is_none() {
        return Ok(());
    }
    let step = |stage: &str| {
        let step = report.steps.iter().find(|step| step.stage == stage)?;
        step.more.map(|more| more.ns)
    };
    let sampled = |component| report.ns(component);
    let mut pairs = vec![("filter", sampled(Component::Filter), step("filter"))];
    if !is_socket {
        let stamp = sampled(Component::Timestamp);
        pairs.push(("timestamp", stamp, step("timestamp")));
    }
    // The two methods draw the line between ring and copy in different places.
    let inside = [Component::Tap, Component::Copy, Component::Wake];
    let inside = inside
        .into_iter()
        .chain(is_socket.then_some(Component::Timestamp));
    let inside: Option<f64> = inside.map(sampled).sum();
    let outside = if is_socket { step("hook") } else { Some(0.0) };
    let ring = [step("ring"), step("copy"), outside];
    let ring: Option<f64> = ring.into_iter().sum();
    let title = if is_socket {
        "hook, stamp, ring, copy, wake-ups"
    } else {
        "ring, copy, wake-ups (samples: with the hook)"
    };
    pairs.push((title, inside, ring));
    let both: Vec<String> = pairs
        .into_iter()
        .filter_map(|(title, sampled, step)| {
            Some(format!("{title} {:.1} and {:.1} ns", sampled?, step?))
        })
        .collect();
    writeln!(text, "by samples and by steps: {}", both.join("; "))
}

/// The number of functions that a line shows.
const SHOWN: usize = 4;

fn functions(text: &mut String, report: &Report) -> std::fmt::Result {
    let sampling = report.method.sampling.as_ref();
    let Some(sampling) = sampling.filter(|sampling| sampling.has_symbols) else {
        return Ok(());
    };
    writeln!(
        text,
        "\nwhere in the kernel (share of the component's samples)"
    )?;
    for (component, functions) in &sampling.functions {
        let all = sampling.tally.components[component.index()];
        let shown: Vec<String> = functions
            .iter()
            .take(SHOWN)
            .map(|(name, count)| {
                format!("{name} {:.0} %", 100.0 * ratio(to_f64(*count), to_f64(all)))
            })
            .collect();
        if !shown.is_empty() {
            writeln!(text, "{:<22} {}", component.title(), shown.join(", "))?;
        }
    }
    Ok(())
}

fn method(text: &mut String, report: &Report) -> std::fmt::Result {
    let method = &report.method;
    writeln!(text, "\nmethod")?;
    if let Some(sampling) = &method.sampling {
        sampled(text, sampling, &report.unexplained)?;
    } else {
        writeln!(
            text,
            "- no samples: figures are of programs cut short and of the kernel's accounts"
        )?;
    }
    if !report.steps.is_empty() {
        writeln!(
            text,
            "- captures cut short: the kernel's run-time statistics of programs, on while they were measured and off \
             again; with engine packet, the processor time of the generator's thread"
        )?;
    }
    let rate = match method.constant_rate {
        Some(true) => "constant rate by /proc/cpuinfo",
        Some(false) => "its rate may change with the processor's frequency",
        None => "whether its rate is constant is not known",
    };
    writeln!(
        text,
        "- cycles: ticks of the processor's clock, {:.3} in a nanosecond, measured against the monotonic clock ({rate})",
        method.ticks_per_ns
    )?;
    for what in &method.cannot_tell {
        writeln!(text, "- unknown: {what}")?;
    }
    Ok(())
}

fn sampled(text: &mut String, sampling: &Sampling, unexplained: &Unexplained) -> std::fmt::Result {
    let tally = &sampling.tally;
    let ours = tally.explained() + tally.unexplained;
    let all = tally.busy() + tally.idle;
    let percent = |count: u64| 100.0 * ratio(to_f64(count), to_f64(all));
    writeln!(
        text,
        "- samples: {} every {:.0} µs on every processor, {all} in all, {ours} of the capture; left out: generator \
         {:.1} %, this measurement {:.1} %, the host's other work {:.1} %, idle {:.1} %; lost: {}",
        sampling.event,
        sampling.period_ns / 1e3,
        percent(tally.generator),
        percent(tally.measurement),
        percent(tally.other),
        percent(tally.idle),
        sampling.lost,
    )?;
    match sampling.own_ns {
        Some(ns) => writeln!(
            text,
            "- a sample takes {:.1} µs by itself, which the figures leave out",
            ns / 1e3
        )?,
        None => writeln!(
            text,
            "- what a sample takes by itself is not known and in the figures; a lower --rate makes it less"
        )?,
    }
    let clock = unexplained.clock_ns.map_or_else(
        || "not compared with the clock".to_owned(),
        |ns| format!("busy time that no sample shows {ns:.1} ns"),
    );
    writeln!(
        text,
        "- unexplained: functions without a rule {:.1} ns, lost samples {:.1} ns, {clock}",
        unexplained.unnamed_ns, unexplained.lost_ns
    )
}

fn advice(text: &mut String, report: &Report) -> std::fmt::Result {
    if report.advice.is_empty() {
        return Ok(());
    }
    writeln!(text, "\nadvice")?;
    for advice in &report.advice {
        match &advice.setting {
            None => writeln!(text, "- {}", advice.text)?,
            Some(setting) => writeln!(text, "- {} Setting: {setting}", advice.text)?,
        }
        match (&advice.effect, advice.trial) {
            (Some(effect), Some(trial)) => tried(text, effect, trial.component())?,
            (None, Some(_)) => match &advice.untried {
                Some(reason) => writeln!(text, "  Not tried: {reason}.")?,
                None => writeln!(text, "  Not tried; --try does.")?,
            },
            _ => {}
        }
    }
    Ok(())
}

fn tried(text: &mut String, effect: &Effect, component: Component) -> std::fmt::Result {
    let range = |figure: &Figure| {
        format!(
            "{:.1} ns ({:.1} – {:.1})",
            figure.ns, figure.low_ns, figure.high_ns
        )
    };
    let rate = |[median, low, high]: &[f64; 3]| {
        let millions = [median, low, high].map(|rate| rate / 1e6);
        format!(
            "{:.3} ({:.3} – {:.3}) million packets/s",
            millions[0], millions[1], millions[2]
        )
    };
    let verdict = |concludes: bool| match concludes {
        true => "",
        false => ": the spread swallows the difference",
    };
    let [before, after] = [&effect.total_before, &effect.total_after];
    let [slow, fast] = [&effect.delivered_before, &effect.delivered_after];
    writeln!(
        text,
        "  Tried in {} pairs: {} {} before, {} with it{}; total {} before, {} with it{}; delivered \
         {} before, {} with it{}.",
        effect.pairs,
        component.title(),
        range(&effect.before),
        range(&effect.after),
        verdict(effect.concludes),
        range(before),
        range(after),
        verdict(before.is_apart(after)),
        rate(slow),
        rate(fast),
        verdict(slow[1] > fast[2] || fast[1] > slow[2]),
    )
}

/// Returns several profiles side by side: nanoseconds per packet.
#[must_use]
pub fn comparison(reports: &[Report]) -> String {
    let mut text = format!("{:<22}", "ns per packet");
    for report in reports {
        let _ = write!(text, " {:>10}", report.engine);
    }
    text.push('\n');
    let mut row = |title: &str, cell: &dyn Fn(&Report) -> Option<f64>| {
        let _ = write!(text, "{title:<22}");
        for report in reports {
            let _ = match cell(report) {
                Some(ns) => write!(text, " {ns:>10.1}"),
                None => write!(text, " {:>10}", "unknown"),
            };
        }
        text.push('\n');
    };
    for component in COMPONENTS {
        row(component.title(), &|report| report.ns(component));
    }
    row("unexplained", &|report| {
        let is_sampled = report.method.sampling.is_some();
        (is_sampled && is_known(report)).then_some(report.unexplained.ns)
    });
    row("total", &|report| {
        is_known(report).then_some(report.total.ns)
    });
    text
}
