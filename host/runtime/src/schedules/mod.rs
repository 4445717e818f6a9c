//! Schedules: what starts workflows by the clock.
//!
//! A schedule is a row that says when to look at it next. Any member that claims everything
//! looks; the store lets one of them decide about an occurrence, in one transaction that makes
//! the instance and moves the schedule on. So nobody is in charge, nobody can die in between,
//! and a member that comes too late is told that the schedule has moved on.

mod planner;
mod service;
mod standby;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use planner::Planner;
#[cfg(test)]
pub(crate) use service::Ready;
pub(crate) use service::start;
pub(crate) use standby::Standby;
