//! What people and other systems reach a host by: the HTTP API, webhooks, health and metrics.
