//! A component or core module in the folder of plugins.

use std::cell::RefCell;
use std::sync::Arc;

use windlass_plugins::{Host, Options};
use windlass_runtime::SystemClock;

/// Inputs after which the host and its directory are replaced: both keep everything that they have
/// seen.
const INPUTS: u32 = 5_000;

struct Rig {
    inputs: u32,
    host: Arc<Host>,
    _io: tokio::runtime::Runtime,
    _dir: tempfile::TempDir,
}

impl Rig {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let io = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let mut options = Options::in_dir(dir.path());
        options.threads = 1;
        let host = Host::start(options, Arc::new(SystemClock::new()), io.handle().clone());
        Self {
            inputs: 0,
            host: host.unwrap(),
            _io: io,
            _dir: dir,
        }
    }
}

thread_local! {
    static RIG: RefCell<Option<Rig>> = const { RefCell::new(None) };
}

pub(crate) fn run(data: &[u8]) {
    RIG.with_borrow_mut(|rig| {
        if rig.as_ref().is_some_and(|rig| rig.inputs >= INPUTS) {
            *rig = None;
        }
        let rig = rig.get_or_insert_with(Rig::new);
        rig.inputs += 1;
        let _ = rig.host.load_bytes("fuzzed.wasm", data.to_vec());
    });
}
