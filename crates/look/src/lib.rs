#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod alerts;
pub mod api;
mod delta;
mod feed;
mod filter;
mod flows;
pub mod heavy;
mod history;
mod hosts;
mod label;
mod metrics;
mod model;
mod packets;
mod places;
mod processes;
mod rows;
mod state;
mod steps;
mod top;
mod view;

pub use alerts::AlertOptions;
pub use feed::{Feed, Inlet, Lost, News, Tick, WhenFull, queue};
pub use filter::FlowFilter;
pub use metrics::metrics;
pub use model::{Look, LookOptions};
pub use packets::filter_of_host;
pub use places::Atlas;
pub use state::{Found, Saved, Store, StoreError};
pub use top::Window;
pub use view::{FlowQuery, FlowSort, Kind, Measure, Split};
