//! Tests of the providers: the conformance suite, and special cases.

mod places;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "redis")]
mod redis;
mod retries;
mod silence;
