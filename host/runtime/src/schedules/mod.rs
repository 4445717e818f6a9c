//! Schedules: they start workflows by the clock.
//!
//! A schedule is a row with the time of its next occurrence. All members that claim all work read
//! it; the store lets one of them decide about an occurrence, in one transaction that creates the
//! run and moves the schedule on. So there is no leader that could die, and a member that comes too
//! late is told that the schedule has moved on.

mod planner;
mod service;
mod standby;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use planner::Planner;
pub(crate) use planner::overlap as occurrence_overlap;
#[cfg(test)]
pub(crate) use service::Ready;
pub(crate) use service::start;
pub(crate) use standby::Standby;
