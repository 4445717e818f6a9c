//! Real servers for tests, each started on a free port with its data in a temporary directory,
//! and stopped when it is dropped.
