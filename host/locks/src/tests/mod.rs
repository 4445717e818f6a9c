//! The providers, by the conformance suite and by what is their own.

mod places;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
mod retries;
mod silence;
