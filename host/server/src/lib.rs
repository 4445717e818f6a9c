//! What people and other systems reach a host by: the HTTP API, webhooks, health and metrics.
//!
//! A [`Server`] is made with [`Options`] and listens by a [`Handle`]. It decides nothing about a
//! run: what it is asked for it hands to the runtime's client and to the store, on threads that
//! may block, and what came of it is answered as JSON, or as a problem with a code. The document
//! that describes all of it is [`openapi`], generated from the handlers.
//!
//! Everything is bounded ([`Bounds`]): connections, requests by pools, bodies, times; and rates,
//! where an operator wants it.

mod api;
mod app;
pub mod codes;
mod connections;
mod error;
mod extract;
mod form;
mod gate;
mod hooks;
mod host;
mod in_process;
mod listen;
mod live_feed;
mod newer;
mod options;
mod origin;
mod page;
mod permissions;
mod pools;
mod problem;
mod proxies;
mod rates;
mod routes;
mod rules;
mod service;
#[cfg(test)]
mod tests;
pub mod verify;
mod view;

pub use connections::RESERVED;
pub use error::Error;
pub use in_process::{Answer, InProcess};
pub use ipnet::IpNet;
pub use live_feed::LiveFeed;
pub use options::{Bounds, Callers, Options};
pub use origin::{is_host, is_origin};
pub use problem::Cause;
pub use proxies::network;
pub use rates::Rate;
pub use routes::openapi;
pub use service::{Handle, Server, check};
