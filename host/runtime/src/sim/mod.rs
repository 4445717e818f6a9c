//! Whole processes on one store, driven by a seed.
//!
//! The scheduler, the shards, the engine and the store's contract are the real ones. The simulation
//! replaces threads, time, the speed of the disk, and guests. It chooses at every step which
//! process continues, when the store carries out a write, when its answer arrives, and how a guest
//! answers. It also kills and stops processes, steps the clock, fills the disk, and takes locks
//! away. A [`checker::Checker`] checks every write.
//!
//! A seed determines everything. `WINDLASS_SEED=… cargo test -p windlass-runtime --lib sim::`
//! repeats one; [`windlass_test_seeds`] has the other variables.

mod checker;
mod clock;
mod consumers;
mod dice;
mod graphs;
mod guests;
mod halfway;
mod history;
mod lists;
mod locks;
mod overtaking;
mod planning;
mod poison;
mod process;
mod published;
mod replay;
mod report;
mod searching;
mod seeds;
mod starters;
mod sweeping;
mod tests;
mod world;
