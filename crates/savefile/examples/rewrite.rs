//! Reads a capture file and writes its packets in the same format, as `tcpdump -r IN -w OUT` does;
//! comparisons with tcpdump use this program.
//!
//! `rewrite [--alone] [--copy] [--nano] [--pcap] IN OUT`: `--copy` pushes single packets instead of
//! runs; `--nano` writes nanoseconds; `--pcap` writes pcap even from pcapng; `--alone` reads
//! without a second thread. OUT may be `-`.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use ringtap_savefile::{
    Format, Interface, Item, PacketRun, PcapOptions, PcapWriter, PcapngWriter, ReadOptions, Reader,
    Section, Totals,
};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;
type Sink = Box<dyn Write>;

struct Options {
    copy: bool,
    nanos: bool,
}

fn main() -> Result<()> {
    let (flags, paths): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|argument| argument.starts_with("--"));
    let [input, output] = &paths[..] else {
        return Err("usage: rewrite [--alone] [--copy] [--nano] [--pcap] IN OUT".into());
    };
    let has = |name: &str| flags.iter().any(|flag| flag == name);
    let options = Options {
        copy: has("--copy"),
        nanos: has("--nano"),
    };
    let mut reading = ReadOptions::default();
    reading.read_ahead = !has("--alone");
    let mut reader = Reader::open(Path::new(input), &reading)?;
    let sink: Sink = match output.as_str() {
        "-" => Box::new(io::stdout()),
        path => Box::new(File::create(path)?),
    };
    let totals = match reader.format() {
        Format::Pcapng if !has("--pcap") => to_pcapng(&mut reader, sink, &options)?,
        _ => to_pcap(&mut reader, sink, &options)?,
    };
    eprintln!("{} packets, {} bytes", totals.packets, totals.bytes);
    Ok(())
}

fn to_pcap(reader: &mut Reader, sink: Sink, options: &Options) -> Result<Totals> {
    let (mut sink, mut writer) = (Some(sink), None);
    while let Some(item) = reader.next()? {
        match item {
            Item::Interface(index) => {
                let interface = &reader.interfaces()[index as usize];
                if let Some(sink) = sink.take() {
                    writer = Some(start_pcap(sink, interface, options)?);
                }
                if let Some(writer) = &mut writer {
                    writer.add_interface(interface);
                }
            }
            Item::Run(run) => {
                if let Some(writer) = &mut writer {
                    push_pcap(writer, &run, options)?;
                }
            }
            _ => {}
        }
    }
    let writer = writer.ok_or("no interface")?;
    Ok(writer.finish()?.1)
}

fn start_pcap(sink: Sink, interface: &Interface, options: &Options) -> Result<PcapWriter<Sink>> {
    let mut header = PcapOptions::for_interface(interface);
    header.nanos |= options.nanos;
    Ok(PcapWriter::new(sink, &header)?)
}

fn push_pcap(writer: &mut PcapWriter<Sink>, run: &PacketRun<'_>, options: &Options) -> Result<()> {
    let mut batch = writer.batch();
    if options.copy {
        run.packets().try_for_each(|packet| batch.push(&packet))?;
    } else {
        batch.push_run(run)?;
    }
    Ok(batch.commit()?)
}

fn to_pcapng(reader: &mut Reader, sink: Sink, options: &Options) -> Result<Totals> {
    let first = reader.section().cloned().unwrap_or_else(Section::default);
    let mut writer = PcapngWriter::new(sink, &first)?;
    let mut sections = 0;
    while let Some(item) = reader.next()? {
        match item {
            Item::Section(section) => {
                sections += 1;
                if sections > 1 {
                    writer.start_section(section)?;
                }
            }
            Item::Interface(index) => {
                writer.add_interface(&reader.interfaces()[index as usize])?;
            }
            Item::Run(run) => {
                let mut batch = writer.batch();
                if options.copy {
                    run.packets_with_options()
                        .try_for_each(|(packet, options)| {
                            batch.push_with_options(&packet, &options)
                        })?;
                } else {
                    batch.push_run(&run)?;
                }
                batch.commit()?;
            }
            Item::Names(names) => writer.write_names(&names)?,
            Item::Statistics(statistics) => writer.write_statistics(&statistics.counters())?,
            Item::Other(block) => writer.write_block(&block)?,
            _ => {}
        }
    }
    Ok(writer.finish()?.1)
}
