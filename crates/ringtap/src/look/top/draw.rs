//! The picture: a header with the traffic over time, the list of the tab, a line of keys, and what lies over
//! them. Texts of packets are drawn without control characters.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Sparkline, Table, TableState, Wrap};
use ringtap_look::api::{FirstBytes, Flow, FlowDetail, Host, TopRow};

use super::app::{App, Over, Tab};
use super::units::{plain, short, time, whole};

/// Lines of the chart.
const CHART: u16 = 3;
/// Packets of a flow whose first bytes are shown, lines of each, and bytes in a line.
const PACKETS: usize = 4;
const DUMP_LINES: usize = 4;
const OCTETS: usize = 16;
/// The width of a bar.
const BAR: usize = 10;

/// Draws everything.
pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App) {
    let areas = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(CHART),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ]);
    let [title, rates, chart, tabs, list, keys] = areas.areas(frame.area());
    frame.render_widget(title_line(app), title);
    frame.render_widget(rates_line(app), rates);
    draw_chart(frame, app, chart);
    frame.render_widget(tabs_line(app), tabs);
    match app.tab() {
        Tab::Flows => draw_flows(frame, app, list),
        Tab::Losses => draw_losses(frame, app, list),
        _ => draw_rows(frame, app, list),
    }
    frame.render_widget(keys_line(app), keys);
    let over = app.over.clone();
    match &over {
        Over::Nothing | Over::Filter(..) => {}
        Over::Help => draw_over(frame, app, "Keys", help()),
        Over::Host(host) => draw_over(frame, app, "Host", host_lines(host)),
        Over::Flow(flow) => draw_over(frame, app, "Flow", flow_lines(flow)),
    }
}

fn colour(app: &App, colour: Color) -> Style {
    match app.coloured {
        true => Style::new().fg(colour),
        false => Style::new(),
    }
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn reversed() -> Style {
    Style::new().add_modifier(Modifier::REVERSED)
}

fn title_line(app: &App) -> Line<'static> {
    let status = &app.picture.status;
    let mut spans = vec![
        Span::styled("ringtap top ", bold()),
        Span::raw(plain(&status.source)),
    ];
    if app.paused {
        spans.push(Span::styled(" PAUSED ", reversed()));
    }
    if let Some((path, packets)) = app.writing() {
        let text = format!(
            " writing {} to {path} ",
            crate::notice::counted(packets, "packet")
        );
        spans.push(Span::styled(plain(&text), reversed()));
    }
    Line::from(spans)
}

fn rates_line(app: &App) -> Line<'static> {
    let status = &app.picture.status;
    let (rates, totals) = (&status.rates, &status.totals);
    let lost: u64 = status
        .losses
        .iter()
        .filter(|loss| !["sampling", "before_hook"].contains(&loss.layer))
        .filter_map(|loss| loss.packets)
        .sum();
    let lost_style = if lost > 0 {
        colour(app, Color::Red).add_modifier(Modifier::BOLD)
    } else {
        Style::new()
    };
    Line::from(vec![
        Span::styled(format!("{}bit/s", short(rates.bits_per_s)), bold()),
        Span::raw(format!(
            "  {} packets/s  {} flows under way  {} hosts  {} packets  ",
            short(rates.packets_per_s),
            whole(totals.active_flows),
            whole(totals.hosts),
            whole(totals.packets),
        )),
        Span::styled(format!("{} lost", whole(lost)), lost_style),
    ])
}

fn draw_chart(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let [chart, protocols] =
        Layout::horizontal([Constraint::Min(20), Constraint::Length(34)]).areas(area);
    let series = &app.picture.series;
    let bytes: Vec<u64> = series.series.first().map_or_else(Vec::new, |line| {
        line.bytes.iter().map(|bytes| bytes.unwrap_or(0)).collect()
    });
    // The last step is still under way.
    let whole_steps = bytes.split_last().map_or(&[][..], |(_, before)| before);
    let shown = whole_steps.len().saturating_sub(usize::from(chart.width));
    let sparkline = Sparkline::default()
        .data(&whole_steps[shown..])
        .style(colour(app, Color::Cyan));
    frame.render_widget(sparkline, chart);
    let most = app
        .picture
        .protocols
        .first()
        .map_or(1, |row| row.bytes.max(1));
    let line = |row: &TopRow| {
        Line::from(vec![
            Span::raw(format!(" {:<8.8}", plain(&row.key))),
            Span::styled(bar(row.bytes, most), colour(app, Color::Cyan)),
            Span::raw(format!("{:>7}B", whole(row.bytes))),
        ])
    };
    let lines: Vec<Line<'_>> = app.picture.protocols.iter().map(line).collect();
    frame.render_widget(Paragraph::new(lines), protocols);
}

/// Returns a bar in eighths of a character.
fn bar(value: u64, most: u64) -> String {
    const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];
    let eighths = u128::from(value) * 8 * BAR as u128 / u128::from(most.max(1));
    let eighths = usize::try_from(eighths).unwrap_or(0).min(8 * BAR);
    let mut text = "█".repeat(eighths / 8);
    if eighths / 8 < BAR {
        text.push(EIGHTHS[eighths % 8]);
    }
    let width = text.chars().count();
    text + &" ".repeat(BAR - width)
}

fn tabs_line(app: &App) -> Line<'static> {
    let mut spans = Vec::new();
    for (number, (_, name)) in app.tabs.iter().enumerate() {
        let style = if number == app.tab {
            reversed()
        } else {
            Style::new()
        };
        spans.push(Span::styled(format!(" {} {name} ", number + 1), style));
    }
    let order = app.order();
    if !order.is_empty() {
        spans.push(Span::raw(format!("  {order}")));
    }
    if !app.filter_text.is_empty() {
        let text = format!("  filter: {}", plain(&app.filter_text));
        spans.push(Span::styled(text, bold()));
    }
    Line::from(spans)
}

fn keys_line(app: &App) -> Line<'static> {
    if let Over::Filter(text, problem) = &app.over {
        let mut spans = vec![Span::styled("/", bold()), Span::raw(plain(text))];
        spans.push(Span::styled(" ", reversed()));
        if let Some(problem) = problem {
            let problem = problem.lines().next().unwrap_or_default();
            spans.push(Span::styled(
                format!("  {}", plain(problem)),
                colour(app, Color::Red),
            ));
        }
        return Line::from(spans);
    }
    if let Some(message) = &app.message {
        return Line::styled(plain(message), bold());
    }
    Line::raw("Tab list  s sort  t time  / filter  Enter detail  w write  p pause  ? help  q")
}

/// Keeps the selected row on the screen.
fn scroll(app: &mut App, area: Rect) -> TableState {
    // One line is the heading.
    app.page = usize::from(area.height.saturating_sub(1)).max(1);
    app.offset = app
        .offset
        .min(app.selected)
        .max((app.selected + 1).saturating_sub(app.page));
    TableState::default()
        .with_offset(app.offset)
        .with_selected(Some(app.selected))
}

fn draw_rows(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let mut state = scroll(app, area);
    let most = app.picture.rows.iter().map(|row| row.bytes).max();
    let most = most.unwrap_or(1).max(1);
    let has_ends = matches!(app.tab(), Tab::Hosts | Tab::Processes);
    let is_processes = app.tab() == Tab::Processes;
    let bars = colour(app, Color::Cyan);
    let row = |row: &TopRow| {
        let name = match &row.name {
            _ if is_processes => process(row),
            Some(name) => format!("{}  {}", plain(&row.key), plain(name)),
            None => plain(&row.key),
        };
        let error = if row.error > 0 { "≥" } else { "" };
        Row::new(vec![
            Line::raw(name),
            Line::styled(bar(row.bytes, most), bars),
            right(format!("{error}{}B", whole(row.bytes))),
            right(format!("{}B", whole(row.bytes_out))),
            right(format!("{}B", whole(row.bytes_in))),
            right(whole(row.packets)),
            right(whole(row.flows)),
        ])
    };
    let (first, out, back) = match has_ends {
        true => (app.row_name(), "sent", "received"),
        false => (app.row_name(), "forward", "reverse"),
    };
    let heading = [first, "", "bytes", out, back, "packets", "flows"];
    let widths = [
        Constraint::Min(20),
        Constraint::Length(10),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(8),
        Constraint::Length(7),
    ];
    let rows = app.picture.rows.iter().map(row);
    draw_table(frame, area, &heading, Table::new(rows, widths), &mut state);
}

/// Returns name and number of the process that a row is about.
fn process(row: &TopRow) -> String {
    let pid = row.key.split('@').next().unwrap_or_default();
    format!("{}:{pid}", plain(row.name.as_deref().unwrap_or_default()))
}

fn right(text: String) -> Line<'static> {
    Line::raw(text).right_aligned()
}

fn draw_table(
    frame: &mut Frame<'_>,
    area: Rect,
    heading: &[&'static str],
    table: Table<'_>,
    state: &mut TableState,
) {
    let cell = |(number, text): (usize, &&'static str)| match number {
        0 | 1 => Line::raw(*text),
        _ => Line::raw(*text).right_aligned(),
    };
    let heading = Row::new(heading.iter().enumerate().map(cell)).style(bold());
    let table = table.header(heading).row_highlight_style(reversed());
    frame.render_stateful_widget(table, area, state);
}

fn end(address: &str, port: Option<u16>) -> String {
    match port {
        Some(port) if address.contains(':') => format!("[{address}]:{port}"),
        Some(port) => format!("{address}:{port}"),
        None => address.to_owned(),
    }
}

fn draw_flows(frame: &mut Frame<'_>, app: &mut App, area: Rect) {
    let mut state = scroll(app, area);
    let now_ms = app.picture.status.now_ms;
    let is_wide = area.width >= 120;
    let row = |flow: &Flow| {
        let age = now_ms.saturating_sub(flow.last_ms);
        let seen = if flow.ended {
            "ended".to_owned()
        } else {
            format!("{}s", age / 1000)
        };
        let application = flow.application.as_deref().unwrap_or("-");
        let what = match &flow.name {
            // A narrow terminal has room for one of them; the flow's details have both.
            Some(name) if is_wide => format!("{application} {}", plain(name)),
            _ => plain(application),
        };
        let mut cells = vec![
            Line::raw(flow.protocol.clone()),
            Line::raw(format!(
                "{} > {}",
                end(&flow.source, flow.source_port),
                end(&flow.destination, flow.destination_port)
            )),
            right(what),
            right(format!("{}B", whole(flow.bytes))),
            right(format!("{}B", whole(flow.reverse_bytes))),
            right(seen),
        ];
        if is_wide {
            cells.push(right(time(flow.rtt_ns)));
        }
        Row::new(cells)
    };
    let heading = [
        "",
        "flow",
        "application",
        "forward",
        "reverse",
        "last",
        "round trip",
    ];
    let mut widths = vec![
        Constraint::Length(5),
        Constraint::Min(30),
        Constraint::Length(if is_wide { 40 } else { 11 }),
        Constraint::Length(7),
        Constraint::Length(7),
        Constraint::Length(5),
    ];
    // The ends of a flow need the room of a narrow terminal.
    if is_wide {
        widths.push(Constraint::Length(10));
    }
    let heading = &heading[..widths.len()];
    let rows = app.picture.flows.iter().map(row);
    draw_table(frame, area, heading, Table::new(rows, widths), &mut state);
}

fn draw_losses(frame: &mut Frame<'_>, app: &App, area: Rect) {
    let mut lines = Vec::new();
    for layer in &app.picture.losses.layers {
        let count = layer.packets.map_or_else(|| "not known".to_owned(), whole);
        let is_lost = layer.packets.is_some_and(|packets| packets > 0);
        let style = if is_lost { bold() } else { Style::new() };
        lines.push(Line::styled(
            format!(
                "{:<12} {count:>10}  {:>8}/s",
                layer.layer,
                short(layer.per_s)
            ),
            style,
        ));
        if is_lost {
            lines.push(Line::raw(format!(
                "    {} {}",
                layer.explanation, layer.advice
            )));
        }
    }
    let status = &app.picture.status;
    lines.push(Line::raw(""));
    lines.push(Line::styled("TCP", bold()));
    let tcp = &status.tcp;
    lines.push(Line::raw(format!(
        "{} retransmissions, {} resets; to clients {}, to servers {} (mean of the last minute's handshakes)",
        whole(tcp.retransmissions),
        whole(tcp.resets),
        time(tcp.client_rtt_ns),
        time(tcp.server_rtt_ns)
    )));
    lines.push(Line::raw(""));
    lines.push(Line::styled("Alerts", bold()));
    for alert in &status.alerts {
        let ago = status.now_ms.saturating_sub(alert.time_ms) / 1000;
        lines.push(Line::raw(format!("{ago:>6} s ago  {}", plain(&alert.text))));
    }
    if status.alerts.is_empty() {
        lines.push(Line::raw("none"));
    }
    let text = Paragraph::new(lines).wrap(Wrap { trim: false });
    frame.render_widget(text, area);
}

fn draw_over(frame: &mut Frame<'_>, app: &App, title: &'static str, lines: Vec<Line<'static>>) {
    let area = frame.area();
    let height = u16::try_from(lines.len() + 2)
        .unwrap_or(u16::MAX)
        .min(area.height);
    let width = area.width.min(100);
    let over = Rect {
        x: (area.width - width) / 2,
        y: (area.height - height) / 2,
        width,
        height,
    };
    let block = Block::bordered()
        .title(title)
        .border_style(colour(app, Color::Cyan));
    frame.render_widget(Clear, over);
    frame.render_widget(Paragraph::new(lines).block(block), over);
}

fn help() -> Vec<Line<'static>> {
    [
        "Tab, Left, Right, 1-4   another list; more with --who and --mmdb",
        "Up, Down, PgUp, PgDn    select a row",
        "Enter                   details of the host or flow",
        "s, S                    sort by the next measure; turn flows around",
        "t                       time: 5 minutes, 6 hours, all",
        "/                       filter, as in pcap-filter(7); an empty one ends it",
        "p                       pause, or go on",
        "w                       write the packets of the selected host or flow to a",
        "                        file from now on; w again ends it",
        "q, Esc                  quit",
    ]
    .map(Line::raw)
    .to_vec()
}

fn pair(name: &str, value: impl AsRef<str>) -> Line<'static> {
    Line::raw(format!("{name:<18} {}", plain(value.as_ref())))
}

fn host_lines(host: &Host) -> Vec<Line<'static>> {
    let mut lines = vec![pair("address", &host.address)];
    for name in &host.names {
        lines.push(pair("name", name));
    }
    if let Some(mac) = &host.mac {
        let vendor = host.vendor.as_deref().unwrap_or_default();
        lines.push(pair("MAC address", format!("{mac} {vendor}")));
    }
    if let Some(system) = &host.autonomous_system {
        lines.push(pair("AS", system));
    }
    if let Some(country) = &host.country {
        lines.push(pair("country", country));
    }
    lines.push(pair(
        "sent, received",
        format!("{}B, {}B", whole(host.bytes_out), whole(host.bytes_in)),
    ));
    lines.push(pair(
        "flows",
        format!(
            "{}, {} under way",
            whole(host.flows),
            whole(host.active_flows)
        ),
    ));
    lines.push(pair("retransmissions", whole(host.tcp.retransmissions)));
    lines.push(pair("round trip", time(host.tcp.client_rtt_ns)));
    for (number, peer) in host.peers.iter().take(6).enumerate() {
        let title = if number == 0 { "peers" } else { "" };
        let name = peer.name.as_deref().unwrap_or_default();
        let text = format!("{:<39} {:>8}B {name}", peer.key, whole(peer.bytes));
        lines.push(pair(title, text));
    }
    for (number, row) in host.applications.iter().take(4).enumerate() {
        let title = if number == 0 { "applications" } else { "" };
        lines.push(pair(
            title,
            format!("{:<39} {:>8}B", row.key, whole(row.bytes)),
        ));
    }
    lines
}

fn flow_lines(detail: &FlowDetail) -> Vec<Line<'static>> {
    let flow = &detail.flow;
    let mut lines = vec![
        pair("protocol", &flow.protocol),
        pair("source", end(&flow.source, flow.source_port)),
        pair("destination", end(&flow.destination, flow.destination_port)),
        pair(
            "application",
            flow.application.as_deref().unwrap_or("not known"),
        ),
    ];
    if let Some(name) = &flow.name {
        lines.push(pair("name", name));
    }
    lines.push(pair(
        "forward, reverse",
        format!(
            "{} and {}; {}B and {}B",
            crate::notice::counted(flow.packets, "packet"),
            flow.reverse_packets,
            whole(flow.bytes),
            whole(flow.reverse_bytes)
        ),
    ));
    let seconds = flow.last_ms.saturating_sub(flow.first_ms) / 1000;
    let state = flow.end_reason.unwrap_or("under way");
    lines.push(pair("duration", format!("{seconds} s, {state}")));
    lines.push(pair("round trip", time(flow.rtt_ns)));
    lines.push(pair("retransmissions", whole(flow.retransmissions)));
    for field in &detail.fields {
        lines.push(pair(&field.name, &field.value));
    }
    for packet in detail.first_bytes.iter().flatten().take(PACKETS) {
        lines.extend(dump(packet));
    }
    lines
}

/// Returns the first bytes of a packet, in hexadecimal and as text.
fn dump(packet: &FirstBytes) -> Vec<Line<'static>> {
    let octets: Vec<u8> = (0..packet.hex.len() / 2)
        .filter_map(|at| u8::from_str_radix(packet.hex.get(2 * at..2 * at + 2)?, 16).ok())
        .collect();
    let mut lines = vec![pair(packet.direction, format!("{} bytes", packet.length))];
    for line in octets.chunks(OCTETS).take(DUMP_LINES) {
        let hex: Vec<String> = line.iter().map(|octet| format!("{octet:02x}")).collect();
        let text = line.iter().map(|octet| match octet {
            b' '..=b'~' => char::from(*octet),
            _ => '.',
        });
        let text: String = text.collect();
        lines.push(Line::raw(format!("  {:<48} {text}", hex.join(" "))));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_have_one_width() {
        for value in 0..=100 {
            assert_eq!(bar(value, 100).chars().count(), BAR, "{value}");
        }
        assert_eq!(bar(100, 100), "█".repeat(BAR));
    }
}
