//! The functions that guests import, and the data of a call that they work on.

pub(crate) mod context;
pub(crate) mod effects;
pub(crate) mod guest;
pub(crate) mod http;
pub(crate) mod imports;
pub(crate) mod log;
pub(crate) mod printed;
pub(crate) mod reader;
pub(crate) mod terms;

use std::sync::Arc;

use windlass_model::Clock;

use crate::grant::secrets::Secrets;
use http::client::Client;

/// The parts of the host that imports use.
pub(crate) struct Offer {
    pub(crate) clock: Arc<dyn Clock>,
    /// The secrets that grants name.
    pub(crate) secrets: Secrets,
    pub(crate) http: Client,
    /// The file in which an operator writes grants, for messages about missing ones.
    pub(crate) grants_file: String,
}
