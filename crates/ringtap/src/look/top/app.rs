//! The state of the view, and the effects of keys.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ringtap_filter::Tables;
use ringtap_look::api::{Flow, FlowDetail, Host, Losses, Series, Status, TopRow};
use ringtap_look::{FlowFilter, FlowQuery, FlowSort, Kind, Measure, Split, Window, filter_of_host};

use super::super::Model;
use super::super::first::Looking;
use super::keep::Keeper;

/// Rows of a list.
const ROWS: usize = 500;

/// A tab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tab {
    Hosts,
    Flows,
    Applications,
    Losses,
    Processes,
    Systems,
    Countries,
}

/// All tabs. That of processes needs some, and the last two a database of addresses.
const TABS: [(Tab, &str); 7] = [
    (Tab::Hosts, "Hosts"),
    (Tab::Flows, "Flows"),
    (Tab::Applications, "Applications"),
    (Tab::Losses, "Losses"),
    (Tab::Processes, "Processes"),
    (Tab::Systems, "AS"),
    (Tab::Countries, "Countries"),
];

const MEASURES: [(Measure, &str); 3] = [
    (Measure::Bytes, "bytes"),
    (Measure::Packets, "packets"),
    (Measure::Flows, "flows"),
];
const FLOW_SORTS: [(FlowSort, &str); 6] = [
    (FlowSort::Bytes, "bytes"),
    (FlowSort::Packets, "packets"),
    (FlowSort::Last, "last packet"),
    (FlowSort::First, "first packet"),
    (FlowSort::Duration, "duration"),
    (FlowSort::Rtt, "round trip"),
];
const WINDOWS: [(Window, &str); 3] = [
    (Window::Minutes, "5 minutes"),
    (Window::Hours, "6 hours"),
    (Window::All, "all"),
];

/// The window over the list.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Over {
    Nothing,
    Help,
    Host(Box<Host>),
    Flow(Box<FlowDetail>),
    /// The filter that is being typed, and what is wrong with it.
    Filter(String, Option<String>),
}

/// The data of the model that one picture shows.
#[derive(Clone, Debug, Default)]
pub(super) struct Picture {
    pub(super) status: Status,
    pub(super) series: Series,
    pub(super) protocols: Vec<TopRow>,
    pub(super) rows: Vec<TopRow>,
    pub(super) flows: Vec<Flow>,
    pub(super) total: u64,
    pub(super) losses: Losses,
}

/// The view.
pub(super) struct App {
    model: Model,
    tables: Tables,
    keeper: Keeper,
    looking: Looking,
    pub(super) tabs: Vec<(Tab, &'static str)>,
    pub(super) tab: usize,
    pub(super) selected: usize,
    /// The first row on the screen; the picture decides.
    pub(super) offset: usize,
    /// Rows of the list on the screen.
    pub(super) page: usize,
    measure: usize,
    flow_sort: usize,
    window: usize,
    ascending: bool,
    pub(super) filter_text: String,
    filter: FlowFilter,
    pub(super) paused: bool,
    pub(super) over: Over,
    pub(super) message: Option<String>,
    pub(super) picture: Picture,
    has_changed: bool,
    has_ended: bool,
    pub(super) coloured: bool,
}

impl App {
    pub(super) fn new(model: Model, tables: Tables, keeper: Keeper, looking: Looking) -> Self {
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let (has_atlas, has_processes) = {
            let look = model.lock();
            (look.has_atlas(), look.has_processes())
        };
        let tabs = TABS.into_iter().filter(|(tab, _)| match tab {
            Tab::Systems | Tab::Countries => has_atlas,
            Tab::Processes => has_processes,
            _ => true,
        });
        Self {
            model,
            tabs: tabs.collect(),
            tables,
            keeper,
            looking,
            tab: 0,
            selected: 0,
            offset: 0,
            page: 1,
            measure: 0,
            flow_sort: 0,
            window: 0,
            ascending: false,
            filter_text: String::new(),
            filter: FlowFilter::default(),
            paused: false,
            over: Over::Nothing,
            message: None,
            picture: Picture::default(),
            has_changed: true,
            has_ended: false,
            coloured: !no_color,
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    pub(super) fn change(&mut self) {
        self.has_changed = true;
    }

    pub(super) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// Ends the file that is being written; returns a line for each file.
    pub(super) fn finish(self) -> Vec<String> {
        self.keeper.finish()
    }

    pub(super) fn tab(&self) -> Tab {
        self.tabs[self.tab].0
    }

    /// Says how the list is sorted, and over which time.
    pub(super) fn order(&self) -> String {
        let least = if self.ascending { ", least first" } else { "" };
        match self.tab() {
            Tab::Flows => format!("by {}{least}", FLOW_SORTS[self.flow_sort].1),
            Tab::Losses => String::new(),
            _ if !self.filter_text.is_empty() => {
                format!("by {}, of listed flows", MEASURES[self.measure].1)
            }
            _ => format!(
                "by {}, {}",
                MEASURES[self.measure].1, WINDOWS[self.window].1
            ),
        }
    }

    /// Returns the file that is being written.
    pub(super) fn writing(&self) -> Option<(String, u64)> {
        self.keeper.running()
    }

    /// Reads the model, unless the view is paused.
    pub(super) fn refresh(&mut self) {
        if let Some(text) = self.keeper.ended() {
            self.message = Some(text);
        }
        if self.paused {
            return;
        }
        let look = self.model.lock();
        let picture = &mut self.picture;
        picture.status = look.status();
        picture.series = look.series(Split::Total, None, None);
        let protocols = look.top(Kind::Protocols, Window::Minutes, Measure::Bytes, 4);
        picture.protocols = protocols.rows;
        let tab = self.tabs[self.tab].0;
        let measure = MEASURES[self.measure].0;
        match tab {
            Tab::Hosts | Tab::Applications | Tab::Processes | Tab::Systems | Tab::Countries => {
                let kind = match tab {
                    Tab::Hosts => Kind::Hosts,
                    Tab::Processes => Kind::Processes,
                    Tab::Systems => Kind::AutonomousSystems,
                    Tab::Countries => Kind::Countries,
                    _ => Kind::Applications,
                };
                let top = match self.filter_text.is_empty() {
                    true => look.top(kind, WINDOWS[self.window].0, measure, ROWS),
                    false => look.top_of_flows(kind, &self.filter, measure, ROWS),
                };
                picture.total = top.rows.len() as u64;
                picture.rows = top.rows;
            }
            Tab::Flows => {
                let flows = look.flow_list(&FlowQuery {
                    filter: self.filter.clone(),
                    sort: FLOW_SORTS[self.flow_sort].0,
                    ascending: self.ascending,
                    offset: 0,
                    limit: ROWS,
                    ended: true,
                });
                picture.total = flows.total;
                picture.flows = flows.flows;
            }
            Tab::Losses => picture.losses = look.losses(),
        }
        drop(look);
        self.selected = self.selected.min(self.rows().saturating_sub(1));
        self.refresh_detail();
    }

    /// Reads the flow that is shown in detail again, with its packets.
    fn refresh_detail(&mut self) {
        let Over::Flow(detail) = &mut self.over else {
            return;
        };
        let id = detail.flow.id.clone();
        // A flow that is not listed any more stays as it was.
        let now = self.model.lock().flow(&id);
        if let Some(now) = now {
            **detail = now;
        }
        detail.first_bytes = self.looking.packets(&self.model, &id, &detail.flow.source);
    }

    /// Rows of the list.
    pub(super) fn rows(&self) -> usize {
        match self.tab() {
            Tab::Flows => self.picture.flows.len(),
            Tab::Losses => 0,
            _ => self.picture.rows.len(),
        }
    }

    /// Returns the name of the list's rows.
    pub(super) fn row_name(&self) -> &'static str {
        match self.tab() {
            Tab::Hosts => "host",
            Tab::Processes => "process",
            Tab::Systems => "autonomous system",
            Tab::Countries => "country",
            _ => "application",
        }
    }

    /// Does what a key asks for.
    pub(super) fn key(&mut self, key: KeyEvent) {
        self.change();
        self.message = None;
        if key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c') {
            self.has_ended = true;
            return;
        }
        match &mut self.over {
            Over::Filter(..) => self.type_filter(key.code),
            Over::Nothing => self.command(key.code),
            Over::Help | Over::Host(_) | Over::Flow(_) => match key.code {
                KeyCode::Char('w') => self.write(),
                _ => self.over = Over::Nothing,
            },
        }
    }

    fn command(&mut self, key: KeyCode) {
        let last = self.rows().saturating_sub(1);
        let page = self.page.max(1);
        match key {
            KeyCode::Char('q') | KeyCode::Esc => self.has_ended = true,
            KeyCode::Char('?' | 'h') | KeyCode::F(1) => self.over = Over::Help,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('/') => self.over = Over::Filter(self.filter_text.clone(), None),
            KeyCode::Char('s') => self.sort(1),
            KeyCode::Char('S') => self.ascending = !self.ascending,
            KeyCode::Char('t') => self.window = (self.window + 1) % WINDOWS.len(),
            KeyCode::Char('w') => self.write(),
            KeyCode::Char(digit @ '1'..='7') => {
                let tab = digit.to_digit(10).unwrap_or(1) as usize - 1;
                if tab < self.tabs.len() {
                    self.go(tab);
                }
            }
            KeyCode::Tab | KeyCode::Right => self.go((self.tab + 1) % self.tabs.len()),
            KeyCode::BackTab | KeyCode::Left => {
                self.go((self.tab + self.tabs.len() - 1) % self.tabs.len());
            }
            KeyCode::Down | KeyCode::Char('j') => self.selected = (self.selected + 1).min(last),
            KeyCode::Up | KeyCode::Char('k') => self.selected = self.selected.saturating_sub(1),
            KeyCode::PageDown => self.selected = (self.selected + page).min(last),
            KeyCode::PageUp => self.selected = self.selected.saturating_sub(page),
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = last,
            KeyCode::Enter => self.detail(),
            _ => {}
        }
    }

    fn go(&mut self, tab: usize) {
        if tab != self.tab {
            (self.tab, self.selected, self.offset) = (tab, 0, 0);
        }
        self.reread();
    }

    /// Reads the model also while the view is paused: another list is asked for.
    fn reread(&mut self) {
        let paused = std::mem::take(&mut self.paused);
        self.refresh();
        self.paused = paused;
    }

    fn sort(&mut self, by: usize) {
        match self.tab() {
            Tab::Flows => self.flow_sort = (self.flow_sort + by) % FLOW_SORTS.len(),
            _ => self.measure = (self.measure + by) % MEASURES.len(),
        }
        self.reread();
    }

    fn type_filter(&mut self, key: KeyCode) {
        let Over::Filter(text, problem) = &mut self.over else {
            return;
        };
        *problem = None;
        match key {
            KeyCode::Esc => self.over = Over::Nothing,
            KeyCode::Backspace => drop(text.pop()),
            KeyCode::Char(character) if text.len() < 1000 => text.push(character),
            KeyCode::Enter => match FlowFilter::new(text, &self.tables) {
                Ok(filter) => {
                    self.filter = filter;
                    text.trim().clone_into(&mut self.filter_text);
                    self.over = Over::Nothing;
                    self.selected = 0;
                    self.reread();
                }
                Err(error) => *problem = Some(error.to_string()),
            },
            _ => {}
        }
    }

    fn detail(&mut self) {
        let look = self.model.lock();
        let over = match self.tab() {
            Tab::Hosts => {
                let row = self.picture.rows.get(self.selected);
                let address = row.and_then(|row| row.key.parse().ok());
                let window = WINDOWS[self.window].0;
                let host = address.and_then(|address| look.host(address, window));
                host.map(|host| Over::Host(Box::new(host)))
            }
            Tab::Flows => {
                let flow = self.picture.flows.get(self.selected);
                let flow = flow.and_then(|flow| look.flow(&flow.id));
                flow.map(|flow| Over::Flow(Box::new(flow)))
            }
            _ => return,
        };
        drop(look);
        match over {
            Some(over) => {
                self.over = over;
                self.refresh_detail();
            }
            None => self.message = Some("it is not listed any more".to_owned()),
        }
    }

    /// Begins to write the packets of the selected host or flow, or ends that.
    fn write(&mut self) {
        let target = match self.tab() {
            Tab::Hosts => self.picture.rows.get(self.selected).and_then(|row| {
                let expression = filter_of_host(row.key.parse().ok()?);
                Some((row.key.clone(), expression))
            }),
            Tab::Flows => self.picture.flows.get(self.selected).and_then(|flow| {
                let expression = self.model.lock().filter_of_flow(&flow.id)?;
                Some((format!("{}-{}", flow.source, flow.destination), expression))
            }),
            _ => None,
        };
        let (name, expression) = match (target, self.keeper.running()) {
            (Some(target), _) => target,
            // The key ends a running capture, which needs no target.
            (None, Some(_)) => (String::new(), String::new()),
            (None, None) => {
                self.message = Some("select a host or a flow first".to_owned());
                return;
            }
        };
        self.message = Some(self.keeper.toggle(&name, &expression));
    }
}
