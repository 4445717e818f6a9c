//! The resident memory of a process whose guests grow. A process of its own, so that nothing else
//! counts.

#[cfg(test)]
mod resident;
#[cfg(test)]
#[path = "../it/rig.rs"]
#[expect(dead_code, reason = "other tests need the rest")]
mod rig;
