//! The boot of the machine.

/// Identifies this boot of the machine; empty where the system has no name for it.
pub(crate) fn boot() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    boot.trim().to_owned()
}
