//! The numbers of this process that the system knows, for its metrics. A number that the system
//! does not give stays as it is.

use std::fs;

use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use windlass_model::metrics::Process;

/// Reads the numbers anew.
pub(crate) fn measure(process: &Process) {
    let cpu = clock_gettime(ClockId::ProcessCPUTime);
    let (seconds, ns) = (u64::try_from(cpu.tv_sec), u64::try_from(cpu.tv_nsec));
    if let (Ok(seconds), Ok(ns)) = (seconds, ns) {
        process.cpu_us.set(seconds * 1_000_000 + ns / 1_000);
    }
    if let Some(most) = getrlimit(Resource::Nofile).current {
        process.max_fds.set(most);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // One of them is that of this look.
        process
            .open_fds
            .set((open.count() as u64).saturating_sub(1));
    }
    let Ok(report) = fs::read_to_string("/proc/self/status") else {
        return;
    };
    for line in report.lines() {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let number = value.split_whitespace().next();
        let Some(number) = number.and_then(|number| number.parse::<u64>().ok()) else {
            continue;
        };
        match name {
            "VmSize" => process.virtual_bytes.set(number.saturating_mul(1024)),
            "VmRSS" => process.resident_bytes.set(number.saturating_mul(1024)),
            "Threads" => process.threads.set(number),
            _ => {}
        }
    }
}
