//! The cost of one flush of this disk.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use windlass_model::Clock;

/// The median time of writing 8 KiB to a file in `dir` and flushing it.
///
/// # Errors
///
/// The file cannot be written.
pub fn median(dir: &Path, clock: &dyn Clock) -> Result<Duration> {
    // Several processes may do this in one directory.
    let path = dir.join(format!("flush.{}.probe", std::process::id()));
    let file = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .open(&path)?;
    let block = [0x5a_u8; 8192];
    let mut times = Vec::with_capacity(64);
    for index in 0..64_u64 {
        let before = clock.monotonic();
        file.write_all_at(&block, index * 8192)?;
        file.sync_data()?;
        times.push(clock.monotonic().saturating_sub(before));
    }
    std::fs::remove_file(&path)?;
    times.sort_unstable();
    Ok(times.get(times.len() / 2).copied().unwrap_or_default())
}
