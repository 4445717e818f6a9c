//! Whole processes on one store, moved by a seed.
//!
//! The scheduler, the shards, the engine and the store's contract are the real ones. The
//! simulation takes the place of threads, of time, of the disk's speed and of guests: it chooses
//! at every moment who goes on, when the store carries out a write, when its answer arrives,
//! what a guest answers; and it kills processes, stops them, steps the clock, fills the disk, and takes locks away.
//! A [`checker::Checker`] looks at every write.
//!
//! A seed determines everything. `WINDLASS_SEED=… cargo test -p windlass-runtime --lib sim::`
//! repeats one; `WINDLASS_SEEDS=…` says how many are tried.

mod checker;
mod clock;
mod dice;
mod graphs;
mod guests;
mod history;
mod lists;
mod locks;
mod overtaking;
mod planning;
mod process;
mod published;
mod replay;
mod report;
mod seeds;
mod starters;
mod sweeping;
mod tests;
mod world;
