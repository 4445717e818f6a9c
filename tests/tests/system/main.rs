//! Tests of the program as users run it: real processes, real components, a real disk.
//!
//! `docs/testing.md` says how to run them and what each module shows.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "they are tests, helpers between them included"
)]

mod alone;
mod author;
mod c;
mod clocks;
mod cluster;
mod compiling;
mod completion;
mod conformance;
mod console;
mod consumers;
mod crash_points;
mod databases;
mod definitions;
mod disks;
mod draining;
mod effects;
mod escapes;
mod features;
mod files;
mod firing;
mod foreign;
mod go;
mod grants;
mod hostile;
mod http;
mod http_answers;
mod http_bounds;
mod http_hostile;
mod http_pools;
mod http_strangers;
mod javascript;
mod kills;
mod known;
mod languages;
mod leaving;
mod links;
mod locks;
mod metrics;
mod mistakes;
mod moving;
mod naming;
mod nodes;
mod operating;
mod over_http;
mod pausing;
mod people;
mod projects;
mod python;
mod readme;
mod remote;
mod reports;
mod schedules;
mod secrets;
mod sharing;
mod stores;
mod supervised;
mod takeover;
#[cfg(target_os = "linux")]
mod threads;
mod traces;
mod trust;
mod tutorial;
mod waiting;
mod waiting_clients;
mod webhooks;
