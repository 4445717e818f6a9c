//! The exchange of components between processes through the store, and their deletion.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use windlass_keys::Key;
use windlass_keys::minisign::Signer;
use windlass_store::memory::MemoryStore;
use windlass_store::rows::DefinitionRow;

use super::*;
use crate::operations;

/// A clock that moves only when the test advances it.
#[derive(Default)]
struct Stepped(AtomicU64);

impl Stepped {
    fn advance(&self, time: Duration) {
        let ms = u64::try_from(time.as_millis()).unwrap();
        self.0.fetch_add(ms, Ordering::SeqCst);
    }
}

impl Clock for Stepped {
    fn wall_ms(&self) -> i64 {
        self.0.load(Ordering::SeqCst).cast_signed()
    }

    fn monotonic(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::SeqCst))
    }
}

/// Several processes on one store.
struct World {
    store: Arc<dyn Store>,
    clock: Arc<Stepped>,
    tokio: tokio::runtime::Runtime,
    dir: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let clock = Arc::<Stepped>::default();
        Self {
            store: MemoryStore::new(Arc::<Stepped>::clone(&clock)),
            clock,
            tokio: tokio::runtime::Runtime::new().unwrap(),
            dir: tempfile::tempdir().unwrap(),
        }
    }

    /// A process with these fixtures.
    fn process(&self, name: &str, files: &[&str]) -> Exchange {
        let exchange = self.granting(name, None);
        files
            .iter()
            .for_each(|file| load(&exchange, &fixture(file)));
        exchange
    }

    /// A process without files that grants `teller` its capabilities if this key has signed it.
    fn granting(&self, name: &str, key: Option<&Signer>) -> Exchange {
        let mut options = windlass_plugins::Options::in_dir(self.dir.path().join(name));
        if let Some(key) = key {
            let mut settings = windlass_plugins::Settings::default();
            settings.grants.events = true;
            settings.proofs.keys = vec![key.public().clone()];
            options.settings.insert("teller".to_owned(), settings);
        }
        let clock = Arc::<Stepped>::clone(&self.clock);
        let io = self.tokio.handle().clone();
        let host = Host::start(options, Arc::<Stepped>::clone(&clock), io).unwrap();
        Exchange::new(Arc::clone(&self.store), host, clock)
    }

    /// The names of the components in the store.
    fn kept(&self) -> Vec<String> {
        let rows = self.store.components(0, 100).unwrap();
        rows.into_iter().map(|row| row.name).collect()
    }
}

fn fixture(name: &str) -> PathBuf {
    // The test executable is in `<target>/<profile>/deps`.
    let executable = std::env::current_exe().unwrap();
    let fixtures = executable.ancestors().nth(3).unwrap().join("fixtures");
    let file = fixtures.join(name).with_extension("wasm");
    assert!(file.is_file(), "{file:?}: run `cargo xtask guests`");
    file
}

fn load(exchange: &Exchange, file: &Path) {
    let plugin = exchange.plugins.load_file(file).unwrap();
    exchange.plugins.registry().insert(file, &plugin).unwrap();
}

fn names(exchange: &Exchange) -> Vec<String> {
    let plugins = exchange.plugins.registry().iter();
    let name = |plugin: &Arc<Plugin>| plugin.description.package.clone();
    plugins.iter().map(name).collect()
}

#[test]
fn the_plugins_of_one_process_reach_the_others_and_unused_ones_are_forgotten() {
    let world = World::new();
    let mut brings = world.process("brings", &["counter", "echo", "steps"]);
    let mut lacks = world.process("lacks", &[]);
    assert!(!brings.round().unwrap());
    assert!(lacks.round().unwrap(), "it has taken something");
    assert!(!lacks.round().unwrap(), "there is nothing new");
    assert_eq!(names(&lacks), ["counter", "echo", "steps"]);
    let workflow = json!({ "workflow": "one", "nodes": { "it": { "use": "echo/echo" } } });
    let read = windlass_model::file::read(&workflow.to_string(), "one.json");
    let json = bytes::Bytes::from(read.canonical().unwrap());
    let row = DefinitionRow {
        digest: Digest::of(&json),
        name: "one".to_owned(),
        json,
    };
    operations::publish(&*world.store, &lacks.plugins, 0, row).unwrap();
    // The process with the files is gone. A published workflow uses one of the components, and one
    // is the newest.
    drop(brings);
    world.clock.advance(Duration::from_millis(KEPT_MS));
    lacks.round().unwrap();
    assert_eq!(
        world.kept(),
        ["counter", "echo", "steps"],
        "it is not too long"
    );
    world.clock.advance(UPKEEP);
    lacks.round().unwrap();
    assert_eq!(world.kept(), ["echo", "steps"]);
    // A component that the store has deleted remains only in processes with a file of it.
    world.clock.advance(UPKEEP);
    lacks.round().unwrap();
    assert_eq!(names(&lacks), ["echo", "steps"]);
    let mut again = world.process("again", &["counter"]);
    assert!(again.round().unwrap());
    assert!(lacks.round().unwrap());
    assert_eq!(names(&lacks), ["counter", "echo", "steps"]);
}

#[test]
fn plugins_that_could_not_be_kept_are_taken_when_the_trouble_is_over() {
    let world = World::new();
    world.process("brings", &["echo"]).round().unwrap();
    let mut lacks = world.process("lacks", &[]);
    let store = world.dir.path().join("lacks/components");
    std::fs::remove_dir(&store).unwrap();
    std::fs::write(&store, b"in the way").unwrap();
    for _ in 0..2 {
        assert!(!lacks.round().unwrap(), "it cannot be kept");
    }
    std::fs::remove_file(&store).unwrap();
    std::fs::create_dir(&store).unwrap();
    assert!(lacks.round().unwrap());
    assert_eq!(names(&lacks), ["echo"]);
}

/// Whether the process has `teller`, and whether its settings grant the capabilities.
fn grants(exchange: &Exchange) -> Option<bool> {
    let plugins = exchange.plugins.registry().iter();
    let teller = plugins
        .iter()
        .find(|plugin| plugin.description.package == "teller");
    teller.map(|plugin| plugin.grants().events)
}

fn signer() -> Signer {
    Signer::of(&Key::random(), "test").unwrap()
}

/// `teller` as a file in a folder of this name.
fn teller(world: &World, folder: &str) -> (PathBuf, Vec<u8>) {
    let folder = world.dir.path().join(folder);
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("teller.wasm");
    let bytes = std::fs::read(fixture("teller")).unwrap();
    windlass_files::write(&file, &bytes).unwrap();
    (file, bytes)
}

/// Writes a signature by this key beside a file, and returns it.
fn sign(key: &Signer, file: &Path) -> String {
    let signature = key.sign(&std::fs::read(file).unwrap(), "a plugin");
    let signature = signature.to_string();
    let beside = file.with_extension("wasm.minisig");
    windlass_files::write(&beside, signature.as_bytes()).unwrap();
    signature
}

/// The signature in the store.
fn kept_signature(world: &World, bytes: &[u8]) -> Option<String> {
    let stored = world.store.component(Digest::of(bytes)).unwrap();
    stored.unwrap().signature
}

#[test]
fn a_signature_that_is_vouched_for_takes_the_place_of_another_one() {
    let (key, stranger, world) = (signer(), signer(), World::new());
    let (file, bytes) = teller(&world, "files");
    let junk = sign(&stranger, &file);
    let mut brings = world.process("brings", &[]);
    load(&brings, &file);
    brings.round().unwrap();
    assert_eq!(kept_signature(&world, &bytes), Some(junk));
    let mut lacks = world.granting("lacks", Some(&key));
    assert!(lacks.round().unwrap());
    assert_eq!(grants(&lacks), Some(false));

    let signature = sign(&key, &file);
    let mut owner = world.granting("owner", Some(&key));
    load(&owner, &file);
    owner.round().unwrap();
    assert_eq!(kept_signature(&world, &bytes), Some(signature.clone()));
    world.clock.advance(UPKEEP);
    for member in [&mut brings, &mut owner, &mut lacks] {
        member.round().unwrap();
        assert_eq!(kept_signature(&world, &bytes), Some(signature.clone()));
    }
    assert_eq!(grants(&lacks), Some(true), "it has seen the change");
}

#[test]
fn processes_that_trust_different_keys_do_not_replace_each_others_signatures() {
    let (one, two, world) = (signer(), signer(), World::new());
    let member = |name: &str, key: &Signer| {
        let (file, _) = teller(&world, &format!("files of {name}"));
        let signature = sign(key, &file);
        let member = world.granting(name, Some(key));
        load(&member, &file);
        (member, signature)
    };
    let (mut first, _) = member("first", &one);
    first.round().unwrap();
    let (mut second, last) = member("second", &two);
    second.round().unwrap();
    let (_, bytes) = teller(&world, "files");
    for _ in 0..2 {
        world.clock.advance(UPKEEP);
        first.round().unwrap();
        second.round().unwrap();
        assert_eq!(kept_signature(&world, &bytes), Some(last.clone()));
    }
}

#[test]
fn a_signature_that_appears_beside_a_file_is_given() {
    let (key, world) = (signer(), World::new());
    let (file, bytes) = teller(&world, "files");
    let mut holds = world.process("holds", &[]);
    load(&holds, &file);
    holds.round().unwrap();
    assert_eq!(kept_signature(&world, &bytes), None);
    let signature = sign(&key, &file);
    load(&holds, &file);
    holds.round().unwrap();
    assert_eq!(kept_signature(&world, &bytes), Some(signature));
}

#[test]
fn a_run_gets_the_grants_that_a_signature_in_the_store_proves() {
    let (key, world) = (signer(), World::new());
    let (file, bytes) = teller(&world, "files");
    let mut holds = world.process("holds", &[]);
    load(&holds, &file);
    holds.round().unwrap();
    let mut trusts = world.granting("trusts", Some(&key));
    assert!(trusts.round().unwrap());
    let find = || find(&*world.store, &trusts.plugins, &Digest::of(&bytes)).unwrap();
    assert!(!find().grants().events);
    sign(&key, &file);
    load(&holds, &file);
    holds.round().unwrap();
    assert!(find().grants().events, "its bytes were here before");
}

#[test]
fn a_component_stays_with_its_file_when_its_signature_comes_from_the_store() {
    let (key, stranger, world) = (signer(), signer(), World::new());
    let (file, bytes) = teller(&world, "files");
    let mut members = [("trusts", &key), ("distrusts", &stranger)]
        .map(|(name, key)| world.granting(name, Some(key)));
    for member in &mut members {
        load(member, &file);
        member.round().unwrap();
    }
    let (elsewhere, _) = teller(&world, "elsewhere");
    sign(&key, &elsewhere);
    let mut signed = world.process("signed", &[]);
    load(&signed, &elsewhere);
    signed.round().unwrap();
    world.clock.advance(UPKEEP);
    for (member, granted) in members.iter_mut().zip([true, false]) {
        assert_eq!(member.round().unwrap(), granted);
        assert_eq!(grants(member), Some(granted));
        let registry = member.plugins.registry();
        assert_eq!(
            registry.files(&Digest::of(&bytes)),
            std::slice::from_ref(&file)
        );
        let plugin = registry.file(&file).unwrap();
        assert_eq!((&plugin.file, plugin.grants().events), (&file, granted));
        assert!(!member.is_from_store(&plugin));
        // The watcher finds its own component.
        load(member, &file);
        assert!(Arc::ptr_eq(&registry.file(&file).unwrap(), &plugin));
        registry.remove(&file);
        assert_eq!(grants(member), None);
    }
}

#[test]
fn a_signature_reaches_the_others_with_its_component() {
    let (key, stranger) = [(); 2]
        .map(|()| Signer::of(&Key::random(), "test").unwrap())
        .into();
    let world = World::new();
    let file = world.dir.path().join("teller.wasm");
    let bytes = std::fs::read(fixture("teller")).unwrap();
    windlass_files::write(&file, &bytes).unwrap();

    // A component without a signature has no proof.
    let mut unsigned = world.process("unsigned", &[]);
    load(&unsigned, &file);
    unsigned.round().unwrap();
    let mut trusts = world.granting("trusts", Some(&key));
    let mut distrusts = world.granting("distrusts", Some(&stranger));
    for member in [&mut trusts, &mut distrusts] {
        assert!(member.round().unwrap());
        assert_eq!(grants(member), Some(false));
    }

    // The member that has the signature writes it, whether or not its settings name the key.
    let signature = key.sign(&bytes, "a plugin").to_string();
    let beside = world.dir.path().join("teller.wasm.minisig");
    windlass_files::write(&beside, signature.as_bytes()).unwrap();
    let mut signed = world.process("signed", &[]);
    load(&signed, &file);
    signed.round().unwrap();
    let stored = world.store.component(Digest::of(&bytes)).unwrap().unwrap();
    assert_eq!(stored.signature.as_deref(), Some(&*signature));
    let mut later = world.granting("later", Some(&key));
    assert!(later.round().unwrap());
    assert_eq!(grants(&later), Some(true));

    // The others find the signature when they read everything again.
    world.clock.advance(UPKEEP);
    for (member, granted) in [(&mut trusts, true), (&mut distrusts, false)] {
        member.round().unwrap();
        assert_eq!(grants(member), Some(granted));
    }
}
