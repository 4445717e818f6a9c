//! The handlers of `/api/v1`, by subject.

pub(crate) mod about;
pub(crate) mod admin;
pub(crate) mod batches;
pub(crate) mod bookmarks;
pub(crate) mod definitions;
pub(crate) mod drafts;
pub(crate) mod events;
pub(crate) mod health;
pub(crate) mod history;
pub(crate) mod letters;
pub(crate) mod lifecycle;
pub(crate) mod listing;
pub(crate) mod live;
pub(crate) mod locks;
pub(crate) mod plugins;
pub(crate) mod publishing;
pub(crate) mod resume;
pub(crate) mod runs;
pub(crate) mod schedules;
pub(crate) mod starting;
pub(crate) mod stimuli;
pub(crate) mod transfer;
pub(crate) mod triggers;
pub(crate) mod upkeep;
pub(crate) mod webhooks;
