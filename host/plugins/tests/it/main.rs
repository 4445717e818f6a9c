//! Loads and calls real components. Those of `target/fixtures` and `target/plugins` come from
//! `cargo xtask guests`.

mod calls;
mod http;
mod lanes;
mod limits;
mod loading;
mod rig;
mod slots;
mod watching;
