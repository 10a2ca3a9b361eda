//! The terminal: taken over at the start, put back at the end, whichever that is.

use std::fs::File;
use std::io::{self, Stdout, Write as _};
use std::os::fd::AsFd as _;
use std::panic;
use std::sync::Once;
use std::time::Duration;

use crossterm::cursor;
use crossterm::execute;
use crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::backend::CrosstermBackend;
use ratatui::{Frame, Terminal};
use ringtap_sys::poll::{self, Interest};

/// The screen while it is ours.
pub(super) struct Screen(Terminal<CrosstermBackend<Stdout>>);

impl Screen {
    /// Takes over the terminal. A panic of any thread puts it back first.
    pub(super) fn enter() -> io::Result<Self> {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let usual = panic::take_hook();
            panic::set_hook(Box::new(move |info| {
                leave();
                usual(info);
            }));
        });
        enable_raw_mode()?;
        let entered = execute!(io::stdout(), EnterAlternateScreen, cursor::Hide);
        let terminal = entered.and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        match terminal {
            Ok(terminal) => Ok(Self(terminal)),
            Err(error) => {
                leave();
                Err(error)
            }
        }
    }

    /// Draws a frame.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(draw).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        leave();
    }
}

/// Whether the terminal has gone, as with a lost connection.
pub(super) fn is_gone() -> bool {
    let stdin = io::stdin();
    let polled = poll::wait([Interest::read(stdin.as_fd())], Some(Duration::ZERO));
    polled.is_ok_and(|[input]| input.failed)
}

/// Puts the terminal back without waiting for it: another thread may be about to write, for ever if the terminal takes
/// nothing.
pub(super) fn leave_at_once() {
    let _ = disable_raw_mode();
    let stdout = io::stdout();
    let polled = poll::wait([Interest::write(stdout.as_fd())], Some(Duration::ZERO));
    let mut bytes = Vec::new();
    let encoded = execute!(bytes, LeaveAlternateScreen, cursor::Show);
    if encoded.is_ok() && polled.is_ok_and(|[output]| output.writable) {
        // Not by the library's lock, which the other thread may hold.
        let _ = stdout
            .as_fd()
            .try_clone_to_owned()
            .map(|terminal| File::from(terminal).write(&bytes));
    }
}

/// Puts the terminal back, as far as that is possible.
fn leave() {
    let _ = execute!(io::stdout(), LeaveAlternateScreen, cursor::Show);
    let _ = disable_raw_mode();
}
