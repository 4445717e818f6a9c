//! The HTTP interface of a host: the API, webhooks, health and metrics.
//!
//! A [`Server`] is made with [`Options`] and listens by a [`Handle`]. It decides nothing about a
//! run: it passes requests to the runtime's client and to the store, on threads that may block, and
//! answers with JSON, or with a problem that has a code. The document that describes all of it is
//! [`openapi`], generated from the handlers.
//!
//! Everything is bounded ([`Bounds`]): connections, requests by pools, bodies, the memory of answers,
//! times; and rates, if an operator sets them.

mod answers;
mod api;
mod app;
mod bodies;
pub mod codes;
mod connections;
mod console;
mod content;
mod cors;
mod count;
mod document;
mod error;
mod extract;
mod form;
mod gate;
mod header;
mod hooks;
mod host;
mod in_process;
mod json;
mod listen;
mod live_feed;
mod named;
mod newer;
mod nodes;
mod options;
mod origin;
mod page;
mod permissions;
mod pools;
mod problem;
mod proxies;
mod rates;
mod raw;
mod rooms;
mod routes;
mod rules;
mod service;
mod session;
#[cfg(test)]
mod tests;
pub mod verify;
mod view;
mod workflow_file;

pub use answers::MOST_READ;
pub use connections::RESERVED;
pub use count::{Count, LARGEST};
pub use document::openapi;
pub use error::Error;
pub use in_process::{Answer, InProcess};
pub use ipnet::IpNet;
pub use live_feed::LiveFeed;
pub use options::{Bounds, Callers, Options, Reload, Settings};
pub use origin::{is_host, is_origin};
pub use problem::Cause;
pub use proxies::network;
pub use rates::Rate;
pub use service::{Handle, Server, check};
pub use view::{Failure, SourcePosition};
