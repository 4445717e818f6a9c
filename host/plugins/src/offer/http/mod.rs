//! The HTTP client of guests: one bounded request, one bounded response, and only to destinations
//! that the operator allows.

pub(crate) mod client;
pub(crate) mod policy;
pub(crate) mod proxy;
pub(crate) mod request;
mod resolve;
pub(crate) mod roots;
