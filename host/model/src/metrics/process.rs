//! The metrics of the process itself, under the names that all exporters of Prometheus use.
//!
//! The system's numbers are set by the program before the text is made. A number that the system
//! does not give has no line.

use super::text::{Text, shown};
use super::{About, Gauge};

pub(super) const BUILD_INFO: About = About {
    name: "windlass_build_info",
    kind: "gauge",
    labels: &["version", "os", "arch"],
    help: "The program: its version, its operating system and its processor. The value is 1.",
};
pub(super) const CPU: About = About {
    name: "process_cpu_seconds_total",
    kind: "counter",
    labels: &[],
    help: "Processor time of the process.",
};
pub(super) const RESIDENT: About = About {
    name: "process_resident_memory_bytes",
    kind: "gauge",
    labels: &[],
    help: "Resident memory of the process.",
};
pub(super) const VIRTUAL: About = About {
    name: "process_virtual_memory_bytes",
    kind: "gauge",
    labels: &[],
    help: "Virtual memory of the process; most of it is reserved and not used.",
};
pub(super) const OPEN_FDS: About = About {
    name: "process_open_fds",
    kind: "gauge",
    labels: &[],
    help: "Open file descriptors.",
};
pub(super) const MAX_FDS: About = About {
    name: "process_max_fds",
    kind: "gauge",
    labels: &[],
    help: "The limit of open file descriptors.",
};
pub(super) const THREADS: About = About {
    name: "process_threads",
    kind: "gauge",
    labels: &[],
    help: "Threads of the process.",
};
pub(super) const START_TIME: About = About {
    name: "process_start_time_seconds",
    kind: "gauge",
    labels: &[],
    help: "When the process started, as a Unix time.",
};

/// The numbers of the process; 0 stands for a number that the system does not give.
#[derive(Debug, Default)]
pub struct Process {
    /// Microseconds.
    pub cpu_us: Gauge,
    /// Bytes.
    pub resident_bytes: Gauge,
    /// Bytes.
    pub virtual_bytes: Gauge,
    /// Open file descriptors.
    pub open_fds: Gauge,
    /// The limit of open file descriptors.
    pub max_fds: Gauge,
    /// Threads.
    pub threads: Gauge,
    /// Epoch milliseconds.
    pub started_ms: Gauge,
}

/// Writes all of them.
pub(super) fn write(process: &Process, text: &mut Text) {
    let program = [
        env!("CARGO_PKG_VERSION"),
        std::env::consts::OS,
        std::env::consts::ARCH,
    ];
    text.values(&BUILD_INFO, [(program.map(str::to_owned).to_vec(), 1)]);
    let all = [
        (&CPU, &process.cpu_us, 1_000_000),
        (&RESIDENT, &process.resident_bytes, 1),
        (&VIRTUAL, &process.virtual_bytes, 1),
        (&OPEN_FDS, &process.open_fds, 1),
        (&MAX_FDS, &process.max_fds, 1),
        (&THREADS, &process.threads, 1),
        (&START_TIME, &process.started_ms, 1_000),
    ];
    for (about, gauge, scale) in all {
        let value = gauge.get();
        text.number(about, (value > 0).then(|| shown(value, scale)));
    }
}
