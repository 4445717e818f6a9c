//! A host in a temporary directory, and short calls.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};
use windlass_model::{Class, Clock, Failure, Outcome, Payload, RunId, Seq, TriggerType};
use windlass_plugins::{
    Accept, Call, CallContext, Disposition, Host, Options, Plugin, Returned, Secret, Secrets,
    Source,
};

/// The clock of the system: these tests measure.
pub(crate) struct RealClock(std::time::Instant);

#[expect(
    clippy::disallowed_methods,
    reason = "this is where the tests' time comes from"
)]
impl RealClock {
    pub(crate) fn new() -> Self {
        Self(std::time::Instant::now())
    }
}

impl Clock for RealClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is where the tests' time comes from"
    )]
    fn wall_ms(&self) -> i64 {
        let since = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        i64::try_from(since.as_millis()).unwrap()
    }

    fn monotonic(&self) -> Duration {
        self.0.elapsed()
    }
}

/// The threads that run calls on fibers, each with instances of its own.
pub(crate) const IO_THREADS: usize = 2;

/// A host, and the objects that have to outlive it.
pub(crate) struct Rig {
    pub(crate) host: Arc<Host>,
    pub(crate) io: Runtime,
    pub(crate) dir: TempDir,
    pub(crate) clock: Arc<RealClock>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(|_| ())
    }

    /// Compiled code is kept for the next run of the tests.
    pub(crate) fn with(change: impl FnOnce(&mut Options)) -> Self {
        Self::in_dir(tempfile::tempdir().unwrap(), |options| {
            options.cache_dir = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("compiled");
            options.code_key = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("code-key");
            change(options);
        })
    }

    /// Uses nothing outside of this directory.
    pub(crate) fn alone() -> Self {
        Self::in_dir(tempfile::tempdir().unwrap(), |_| ())
    }

    pub(crate) fn in_dir(dir: TempDir, change: impl FnOnce(&mut Options)) -> Self {
        let io = Builder::new_multi_thread()
            .worker_threads(IO_THREADS)
            .enable_all()
            .build()
            .unwrap();
        let mut options = Options::in_dir(dir.path());
        options.threads = 2;
        change(&mut options);
        let clock = Arc::new(RealClock::new());
        let host = Host::start(options, Arc::clone(&clock) as _, io.handle().clone()).unwrap();
        Self {
            host,
            io,
            dir,
            clock,
        }
    }

    pub(crate) fn plugin(&self, name: &str) -> Arc<Plugin> {
        self.host.load_file(&built(name)).unwrap()
    }

    pub(crate) fn wat(&self, wat: &str) -> Result<Arc<Plugin>, windlass_plugins::Error> {
        self.host
            .load_bytes("test.wasm", wat::parse_str(wat).unwrap())
    }

    /// A node executor of the package `wat`, with one node `run` and this function. It may return
    /// 128, which means done with `"ok"`.
    pub(crate) fn node(&self, execute: &str) -> Result<Arc<Plugin>, windlass_plugins::Error> {
        self.node_with(&[], "", "", execute)
    }

    /// As `node`, with further packages, and the imports of the world and of the module.
    pub(crate) fn node_with(
        &self,
        packages: &[&str],
        world: &str,
        imports: &str,
        execute: &str,
    ) -> Result<Arc<Plugin>, windlass_plugins::Error> {
        let bytes = module(packages, world, imports, execute);
        self.host.load_bytes("test.wasm", bytes)
    }

    pub(crate) fn accept(&self, plugin: &Arc<Plugin>, accept: Accept) -> Returned<Disposition> {
        self.io.block_on(Arc::clone(plugin).accept(accept))
    }

    pub(crate) fn fiber(&self, plugin: &Arc<Plugin>, call: Call) -> Returned<Outcome> {
        self.io.block_on(Arc::clone(plugin).execute(call))
    }
}

/// The core module of a node executor for `Rig::node_with`.
pub(crate) fn module(packages: &[&str], world: &str, imports: &str, execute: &str) -> Vec<u8> {
    let module = MODULE
        .replace("IMPORTS", imports)
        .replace("EXECUTE", execute);
    embed(packages, world, "windlass:node/node@0.1.0", &module)
}

/// As `module`, without a component type.
pub(crate) fn untyped(imports: &str, execute: &str) -> Vec<u8> {
    let module = MODULE.replace("IMPORTS", imports);
    wat::parse_str(module.replace("EXECUTE", execute)).unwrap()
}

/// The core module of a consumer of the package `w` with this function. It may return 128, which
/// means that the trigger is executed.
pub(crate) fn consumer(packages: &[&str], world: &str, imports: &str, accept: &str) -> Vec<u8> {
    let interface = "windlass:consumer/consumer@0.1.0";
    let module = MODULE
        .replace("windlass:node/node@0.1.0", interface)
        .replace("#execute", "#accept")
        .replace(
            "(param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)",
            ACCEPT,
        )
        .replace(r#"\"wat\""#, r#"\"w\""#)
        .replace(NODES, r#"\"consumer\":{\"types\":[\"*\"]}"#)
        .replace("IMPORTS", imports)
        .replace("EXECUTE", accept);
    embed(packages, world, interface, &module)
}

/// The parameters of `accept`.
const ACCEPT: &str = "(param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)";
/// The nodes in the description of `MODULE`.
const NODES: &str = r#"\"nodes\":[{\"name\":\"run\"}]"#;

/// A core module with the type of a component that exports this interface.
fn embed(packages: &[&str], world: &str, exports: &str, module: &str) -> Vec<u8> {
    let wit = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../wit");
    let mut resolve = wit_parser::Resolve::default();
    for name in PACKAGES {
        resolve.push_dir(wit.join(name).join("0.1.0")).unwrap();
    }
    for package in packages {
        resolve.push_str("test.wit", package).unwrap();
    }
    let world = format!("package test:test; world test {{ {world} export {exports}; }}");
    let package = resolve.push_str("test.wit", &world).unwrap();
    let world = resolve.select_world(&[package], Some("test")).unwrap();
    let mut bytes = wat::parse_str(module).unwrap();
    let encoding = wit_component::StringEncoding::UTF8;
    wit_component::embed_component_metadata(&mut bytes, &resolve, world, encoding).unwrap();
    bytes
}

/// A secret of at least eight bytes that every workflow may use, and that may be sent nowhere.
pub(crate) fn secrets(name: &str, value: &str) -> Secrets {
    let secret = Secret {
        source: Source::Value(value.to_owned()),
        to: Vec::new(),
        workflows: None,
    };
    Secrets::new([(name.to_owned(), secret)].into()).unwrap()
}

/// Each one follows the packages that it uses.
const PACKAGES: [&str; 11] = [
    "types", "log", "context", "memory", "blobs", "http", "events", "clock", "random", "node",
    "consumer",
];

/// At address 64 is a payload without content type, inline; at 128, `done` with `"ok"` and no port.
const MODULE: &str = r#"(module
  IMPORTS
  (memory (export "memory") 1)
  (global $free (mut i32) (i32.const 8192))
  (data (i32.const 64) "\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\04\00\00\49\00\00\00")
  (data (i32.const 128) "\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\00\02\00\00\04\00\00\00\04\00\00\00\00\00\00\00")
  (data (i32.const 512) "\"ok\"")
  (data (i32.const 1024) "{\"windlass\":1,\"package\":\"wat\",\"version\":\"1.0.0\",\"nodes\":[{\"name\":\"run\"}]}")
  (func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32)
    (local $at i32)
    (local.set $at (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
    (global.set $free (i32.add (local.get $at) (local.get 3)))
    (local.get $at))
  (func (export "windlass:node/node@0.1.0#describe") (result i32) (i32.const 64))
  (func $execute (export "windlass:node/node@0.1.0#execute")
    (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32) (result i32)
    EXECUTE))"#;

/// The proofs of a component that is built.
pub(crate) fn proofs(name: &str) -> windlass_plugins::Proofs {
    let bytes = std::fs::read(built(name)).unwrap();
    windlass_plugins::Proofs {
        digests: vec![windlass_model::Digest::of(&bytes)],
        ..windlass_plugins::Proofs::default()
    }
}

/// A component that `cargo xtask guests` builds.
pub(crate) fn built(name: &str) -> PathBuf {
    // The target directory may be shared with other clones and lie outside of this one; the test
    // executable is in `<target>/<profile>/deps`.
    let executable = std::env::current_exe().expect("a test has an executable");
    let root = executable
        .ancestors()
        .nth(3)
        .expect("it lies in a target directory");
    ["fixtures", "plugins"]
        .iter()
        .map(|dir| root.join(dir).join(format!("{name}.wasm")))
        .find(|file| file.is_file())
        .unwrap_or_else(|| {
            panic!("{name}.wasm is in neither target/fixtures nor target/plugins: run `cargo xtask guests`")
        })
}

pub(crate) fn context() -> CallContext {
    let run = RunId("018f0000-0000-7000-8000-000000000001".parse().unwrap());
    CallContext {
        node: Some("step".into()),
        first: Seq(5),
        attempt: 2,
        correlation: Some("order-1".into()),
        ..CallContext::new(run, "flow".into(), Seq(7))
    }
}

pub(crate) fn call(node_type: &str, config: &Value, input: &Value) -> Call {
    Call {
        node_type: node_type.into(),
        config: Payload::of(config),
        input: Payload::of(input),
        cx: context(),
        slot_key: 0,
        timeout: None,
        queued: None,
    }
}

pub(crate) fn bare(node_type: &str) -> Call {
    call(node_type, &Value::Null, &Value::Null)
}

pub(crate) fn trigger(payload: Option<&Value>) -> Accept {
    Accept {
        kind: TriggerType::Start,
        node: None,
        payload: payload.map(Payload::of),
        cx: context(),
        slot_key: 0,
        timeout: None,
    }
}

/// The output of a node that completed.
#[track_caller]
pub(crate) fn output(returned: Returned<Outcome>) -> Value {
    match returned.result.unwrap() {
        Outcome::Done(done) => serde_json::from_slice(done.output.inline().unwrap()).unwrap(),
        other => panic!("not done: {other:?}"),
    }
}

#[track_caller]
pub(crate) fn failure<T: std::fmt::Debug>(
    returned: Returned<T>,
    class: Class,
    code: &str,
) -> Failure {
    let failure = returned.result.unwrap_err();
    assert_eq!(
        (failure.class, failure.code.as_str()),
        (class, code),
        "{failure}"
    );
    failure
}

#[track_caller]
pub(crate) fn vars(disposition: Disposition) -> Option<Value> {
    match disposition {
        Disposition::Execute { vars } => {
            vars.map(|vars| serde_json::from_slice(vars.inline().unwrap()).unwrap())
        }
        other => panic!("does not execute: {other:?}"),
    }
}

/// Makes quick calls, until the plugin may be called inline.
#[track_caller]
pub(crate) fn earn_trust(rig: &Rig, plugin: &Arc<Plugin>, make: impl Fn() -> Call) {
    for _ in 0..64 {
        if plugin.lane() == windlass_plugins::CallMode::Inline {
            return;
        }
        let _ = rig.fiber(plugin, make());
    }
    panic!("{} does not get inline", plugin.name());
}
