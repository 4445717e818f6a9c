//! Settings give permissions to proved components, and not to files that only claim their name.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_keys::Key;
use windlass_keys::minisign::Signer;
use windlass_model::{Digest, TriggerType};
use windlass_plugins::{Grants, Limits, Options, Plugin, Proof, Proofs, Settings, Standing, codes};

use crate::rig::{Rig, built, call, module, output};

/// Grants all that `teller` requests to components with these proofs.
fn granting(proofs: Proofs) -> impl FnOnce(&mut Options) {
    move |options| {
        let grants = Grants {
            events: true,
            ..Grants::default()
        };
        let settings = Settings {
            proofs,
            grants,
            ..Settings::default()
        };
        options.settings.insert("teller".to_owned(), settings);
    }
}

/// The fixture `teller`, with a section that has no meaning.
fn teller(mark: u8) -> Vec<u8> {
    let mut bytes = std::fs::read(built("teller")).unwrap();
    // A custom section of three bytes: a name of one, and one of content.
    bytes.extend([0, 3, 1, b'x', mark]);
    bytes
}

/// A folder of plugins.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        std::fs::write(&path, bytes).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        path
    }

    /// Grants to the component in `teller.wasm` here.
    fn proof(&self) -> Proofs {
        Proofs {
            files: vec![self.path("teller.wasm")],
            ..Proofs::default()
        }
    }
}

fn load(rig: &Rig, file: &Path) -> Arc<Plugin> {
    rig.host.load_file(file).unwrap()
}

#[track_caller]
fn check(plugin: &Plugin, expected: Option<&Proof>) {
    let standing = match expected {
        Some(proof) => Standing::Proved(proof.clone()),
        None => Standing::Unproved,
    };
    assert_eq!(*plugin.standing(), standing);
    assert_eq!(plugin.grants().events, expected.is_some());
}

#[test]
fn a_component_without_a_proof_gets_no_grants_of_its_name() {
    let rig = Rig::with(granting(Proofs::default()));
    let plugin = rig.plugin("teller");
    check(&plugin, None);
    let config = json!({ "send": 1, "name": "paid", "data": 1 });
    let answer = output(rig.fiber(&plugin, call("teller/tell", &config, &Value::Null)));
    let told = answer.to_string();
    assert!(
        told.contains("not granted") && told.contains("WL-P020"),
        "{told}"
    );
}

#[test]
fn an_impostor_of_the_library_is_neither_granted_anything_nor_asked() {
    let library = Digest::of(&std::fs::read(built("http")).unwrap());
    let rig = Rig::with(|options| {
        let mut settings = Settings::default();
        settings.grants.http = vec!["https://a.example".parse().unwrap()];
        settings.grants.secrets = vec!["token".to_owned()];
        options.settings.insert("http".to_owned(), settings);
        options.library.insert(library);
    });
    let (real, impostor) = (rig.plugin("http"), rig.plugin("impostor"));
    assert_eq!(*real.standing(), Standing::Proved(Proof::Library));
    assert_eq!(real.grants().http.len(), 1);
    assert_eq!(impostor.name(), "http@1.9.9");
    assert_eq!(*impostor.standing(), Standing::Unproved);
    assert!(impostor.grants().http.is_empty() && impostor.grants().secrets.is_empty());
    let registry = rig.host.registry();
    registry.insert(&built("impostor"), &impostor).unwrap();
    assert!(registry.consumer(TriggerType::Start, None).is_none());
    let kept_out = registry.kept_out(TriggerType::Start, None).unwrap();
    assert_eq!(kept_out.digest, impostor.digest);
}

#[test]
fn a_consumer_is_asked_once_it_is_granted_to_be_one() {
    let digest = Digest::of(&std::fs::read(built("gate")).unwrap());
    let asked = |consumer: bool, digests: Vec<Digest>, library: bool| {
        let rig = Rig::with(|options| {
            let mut settings = Settings::default();
            settings.grants.consumer = consumer;
            settings.proofs.digests = digests;
            options.settings.insert("gate".to_owned(), settings);
            options.library.extend(library.then_some(digest));
        });
        let registry = rig.host.registry();
        registry
            .insert(&built("gate"), &rig.plugin("gate"))
            .unwrap();
        registry
            .consumer(TriggerType::Start, Some("gate"))
            .is_some()
    };
    assert!(asked(true, vec![digest], false));
    assert!(!asked(false, vec![digest], false));
    assert!(!asked(true, vec![Digest::of(b"other")], false));
    assert!(asked(false, Vec::new(), true));
}

#[test]
fn a_digest_proves_a_component_wherever_it_comes_from() {
    let bytes = teller(1);
    let digest = Digest::of(&bytes);
    let rig = Rig::with(granting(Proofs {
        digests: vec![digest],
        ..Proofs::default()
    }));
    let plugin = rig.host.load_bytes("store", bytes).unwrap();
    check(&plugin, Some(&Proof::Digest(digest)));
    check(&rig.host.load_bytes("other", teller(2)).unwrap(), None);
}

#[test]
fn a_file_proves_its_component_each_time_that_it_is_built() {
    let folder = Folder::new();
    let rig = Rig::with(granting(folder.proof()));
    let proof = Proof::File(
        folder
            .path("teller.wasm")
            .canonicalize()
            .unwrap_or_else(|_| folder.0.path().canonicalize().unwrap().join("teller.wasm")),
    );
    let first = load(&rig, &folder.put("teller.wasm", &teller(1)));
    check(&first, Some(&proof));
    check(&load(&rig, &folder.put("other.wasm", &teller(2))), None);
    check(
        &load(&rig, &folder.put("teller.wasm", &teller(3))),
        Some(&proof),
    );
    // Bytes that only claim to be of this file are not proved.
    let file = folder.path("teller.wasm").display().to_string();
    check(&rig.host.load_bytes(&file, teller(4)).unwrap(), None);
}

#[test]
fn a_run_keeps_the_grants_that_the_file_of_its_component_proved() {
    let folder = Folder::new();
    let rig = Rig::with(granting(folder.proof()));
    let granted = load(&rig, &folder.put("teller.wasm", &teller(1))).digest;
    let unproved = load(&rig, &folder.put("other.wasm", &teller(2))).digest;
    let dir = rig.dir;
    drop((rig.host, rig.io));
    let tests = |options: &mut Options| {
        options.code_key = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("code-key");
    };
    // A restarted host has the component in its store, and another file in the folder.
    folder.put("teller.wasm", &teller(3));
    let again = Rig::in_dir(dir, |options| {
        tests(options);
        granting(folder.proof())(options);
    });
    assert!(again.host.plugin(&granted).unwrap().grants().events);
    check(&again.host.plugin(&unproved).unwrap(), None);
    let dir = again.dir;
    drop((again.host, again.io));
    // A note is valid for its component only.
    let notes = std::fs::read_dir(dir.path().join("components")).unwrap();
    let notes = notes.map(|entry| entry.unwrap().path());
    let of = |digest: &Digest| digest.hex();
    for note in notes.filter(|path| path.extension().is_some_and(|it| it == "proved")) {
        let moved = note
            .display()
            .to_string()
            .replace(&of(&granted), &of(&unproved));
        std::fs::copy(&note, moved).unwrap();
    }
    let again = Rig::in_dir(dir, |options| {
        tests(options);
        granting(folder.proof())(options);
    });
    assert!(again.host.plugin(&granted).unwrap().grants().events);
    check(&again.host.plugin(&unproved).unwrap(), None);
    let dir = again.dir;
    drop((again.host, again.io));
    // A proof that the settings no longer name does not count.
    let again = Rig::in_dir(dir, |options| {
        tests(options);
        granting(Proofs::default())(options);
    });
    check(&again.host.plugin(&granted).unwrap(), None);
}

#[test]
fn a_file_that_another_user_could_have_written_proves_nothing() {
    let folder = Folder::new();
    let rig = Rig::with(granting(folder.proof()));
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let file = folder.put("teller.wasm", &teller(1));
    mode(&file, 0o666);
    check(&load(&rig, &file), None);
    let file = folder.put("teller.wasm", &teller(2));
    mode(folder.0.path(), 0o777);
    check(&load(&rig, &file), None);
    mode(folder.0.path(), 0o755);
    assert!(load(&rig, &file).grants().events);
}

fn signer() -> Signer {
    Signer::of(&Key::random(), "test").unwrap()
}

#[test]
fn the_signature_of_a_trusted_key_proves_and_no_other_does() {
    let (trusted, other) = (signer(), signer());
    let folder = Folder::new();
    let rig = Rig::with(granting(Proofs {
        keys: vec![signer().public().clone(), trusted.public().clone()],
        ..Proofs::default()
    }));
    let signed = |mark: u8, signature: Option<&[u8]>| {
        let file = folder.put(&format!("{mark}.wasm"), &teller(mark));
        if let Some(signature) = signature {
            folder.put(&format!("{mark}.wasm.minisig"), signature);
        }
        load(&rig, &file)
    };
    let text = |signer: &Signer, mark: u8| signer.sign(&teller(mark), "a plugin").to_string();
    let proof = Proof::Signature(trusted.public().clone());
    check(&signed(1, Some(text(&trusted, 1).as_bytes())), Some(&proof));
    check(&signed(2, Some(text(&other, 2).as_bytes())), None);
    check(&signed(3, Some(text(&trusted, 1).as_bytes())), None);
    check(&signed(4, None), None);
    check(&signed(5, Some(b"")), None);
    check(&signed(6, Some(&[0xff; 100])), None);
    check(&signed(7, Some(&vec![b'a'; 1 << 20])), None);
    let whole = text(&trusted, 8);
    for cut in [1, whole.len() / 4, whole.len() / 2, whole.len() - 10] {
        check(&signed(8, Some(&whole.as_bytes()[..cut])), None);
    }
    // A signature that comes later than the component counts from then on.
    let before = signed(8, None);
    let after = signed(8, Some(whole.as_bytes()));
    check(&after, Some(&proof));
    check(&before, None);
    assert!(rig.host.is_replaced(&before) && !rig.host.is_replaced(&after));
    assert!(Arc::ptr_eq(
        &after,
        &rig.host.plugin(&after.digest).unwrap()
    ));
}

#[test]
fn of_two_files_with_one_component_the_proved_one_is_used() {
    let folder = Folder::new();
    let rig = Rig::with(granting(folder.proof()));
    let bytes = teller(1);
    let registry = rig.host.registry();
    for (name, proved) in [("a.wasm", false), ("teller.wasm", true), ("z.wasm", true)] {
        let file = folder.put(name, &bytes);
        registry.insert(&file, &load(&rig, &file)).unwrap();
        let [plugin] = &registry.iter()[..] else {
            panic!("one component is one plugin");
        };
        assert_eq!(plugin.grants().events, proved, "{name}");
    }
}

#[test]
fn denied_components_are_neither_loaded_nor_found() {
    let folder = Folder::new();
    let (bytes, other) = (teller(1), teller(2));
    let denied = Digest::of(&bytes);
    let mut proofs = folder.proof();
    proofs.digests.push(denied);
    let rig = Rig::with(granting(proofs.clone()));
    load(&rig, &folder.put("teller.wasm", &bytes));
    let dir = rig.dir;
    drop((rig.host, rig.io));
    let again = Rig::in_dir(dir, |options| {
        options.denied.insert(denied);
        granting(proofs)(options);
    });
    let host = &again.host;
    let code = |loaded: Result<Arc<Plugin>, windlass_plugins::Error>| loaded.unwrap_err().code;
    assert!(host.is_denied(&denied));
    assert_eq!(code(host.plugin(&denied)), codes::DENIED);
    assert_eq!(
        code(host.load_file(&folder.path("teller.wasm"))),
        codes::DENIED
    );
    assert_eq!(code(host.load_bytes("store", bytes)), codes::DENIED);
    assert!(
        host.load_bytes("store", other)
            .unwrap()
            .grants()
            .events
            .eq(&false)
    );
}

#[test]
fn denying_a_file_denies_the_component_that_is_made_of_it() {
    let module = module(&[], "", "", "(i32.const 128)");
    let denied = Digest::of(&module);
    let rig = Rig::new();
    let component = rig
        .host
        .load_bytes("module", module.clone())
        .unwrap()
        .digest;
    assert_ne!(component, denied);
    let bytes = rig.host.component(&component).unwrap();
    let dir = rig.dir;
    drop((rig.host, rig.io));
    let again = Rig::in_dir(dir, |options| {
        options.denied.insert(denied);
    });
    let host = &again.host;
    // As the component comes from the store of a cluster, before this process has seen the file.
    let plugin = host.load_bytes("store", bytes.clone()).unwrap();
    host.registry().insert(Path::new("store"), &plugin).unwrap();
    let error = host.load_bytes("module", module).unwrap_err();
    assert_eq!(error.code, codes::DENIED);
    for digest in [denied, component] {
        assert!(error.message.contains(&digest.to_string()), "{error}");
        assert!(host.is_denied(&digest));
        assert_eq!(host.plugin(&digest).unwrap_err().code, codes::DENIED);
    }
    let error = host.load_bytes("store", bytes).unwrap_err();
    assert_eq!(error.code, codes::DENIED);
    assert!(host.registry().iter().is_empty(), "nothing begins with it");
    let files = std::fs::read_dir(again.dir.path().join("components")).unwrap();
    assert_eq!(files.count(), 1, "nothing of the file is kept");
}

#[test]
fn a_signature_is_noted_whenever_it_comes_and_as_it_is_written_anew() {
    let (trusted, other) = (signer(), signer());
    let folder = Folder::new();
    let rig = Rig::with(granting(Proofs {
        digests: vec![Digest::of(&teller(1))],
        keys: vec![trusted.public().clone()],
        ..Proofs::default()
    }));
    let file = folder.put("teller.wasm", &teller(1));
    let plugin = load(&rig, &file);
    assert_eq!(plugin.signature(), None);
    let signed = |signature: &str| {
        folder.put("teller.wasm.minisig", signature.as_bytes());
        assert!(Arc::ptr_eq(&plugin, &load(&rig, &file)));
        plugin
            .signature()
            .map(|signed| (signed.text.to_string(), signed.vouched))
    };
    let by = |signer: &Signer| signer.sign(&teller(1), "a plugin").to_string();
    assert_eq!(signed(&by(&other).replace("a plugin", "a\0plugin")), None);
    let above = format!(
        "untrusted comment: signature of key {}",
        other.public().name()
    );
    let text = by(&other);
    assert!(text.starts_with(&above));
    let changed = text.replace(&above, "untrusted comment: said by nobody");
    assert_eq!(signed(&changed), Some((text, false)));
    let text = by(&trusted);
    assert_eq!(signed(&text), Some((text.clone(), true)));
    // A signature by a trusted key is kept.
    assert_eq!(signed(&by(&other)), Some((text, true)));
}

#[test]
fn restrictions_hold_for_every_component_of_the_name() {
    let digest = Digest::of(&teller(1));
    let rig = Rig::with(|options| {
        let limits = Limits {
            memory_bytes: options.limits.memory_bytes * 2,
            log_lines: 1,
            ..options.limits.clone()
        };
        let settings = Settings {
            proofs: Proofs {
                digests: vec![digest],
                ..Proofs::default()
            },
            limits: Some(limits),
            ..Settings::default()
        };
        options.settings.insert("teller".to_owned(), settings);
    });
    let default = Limits::default();
    let proved = rig.host.load_bytes("a", teller(1)).unwrap();
    let impostor = rig.host.load_bytes("b", teller(2)).unwrap();
    assert_eq!(proved.limits().memory_bytes, default.memory_bytes * 2);
    assert_eq!(impostor.limits().memory_bytes, default.memory_bytes);
    assert_eq!(proved.limits().log_lines, 1);
    assert_eq!(impostor.limits().log_lines, 1);
}
