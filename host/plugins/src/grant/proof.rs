//! Proofs that the settings of a package apply to a component.
//!
//! A component states its own package, so any file can claim to be `http`. Therefore settings give
//! permissions only to a proved component. A proof is one of these: a digest of the library that
//! came with the host, a digest in the settings, the signature of a key in the settings, or the
//! file that the settings name. Restrictions hold for every component of the name.
//!
//! A signature and a file prove a component while it is loaded from that file. A run keeps the
//! component with which it began, and finds it later in the component store, where neither is; the
//! next version of the host has another library. So the host records its proofs: a note of 32 bytes
//! beside the stored component, which needs the key of this user. A note counts as long as the
//! settings name its proof.
//!
//! Bounds: a signature file has at most 4,096 bytes; there is a note for each component and proof.

use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use windlass_keys::minisign::{self, PublicKey, Signature};
use windlass_model::Digest;

use super::Rules;
use super::settings::Settings;

/// The proofs for components of one package, besides the library. One of them suffices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proofs {
    /// Digests of components, or of the files that contain them.
    pub digests: Vec<Digest>,
    /// Keys that may sign components: the signature is in a file `NAME.wasm.minisig` beside the
    /// component.
    pub keys: Vec<PublicKey>,
    /// Files of plugin folders.
    pub files: Vec<PathBuf>,
}

/// A proof of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It is part of the library that came with this host, or with an earlier one.
    Library,
    /// Its digest, or that of the file that contains it.
    Digest(Digest),
    /// It has a signature of this key.
    Signature(PublicKey),
    /// It is, or was, in this file.
    File(PathBuf),
}

/// The purpose of a note.
const NOTE: &[u8] = b"windlass proved component 1";

impl Proof {
    /// A text that no other proof has.
    fn text(&self) -> Vec<u8> {
        match self {
            Self::Library => b"library".to_vec(),
            Self::Digest(digest) => [b"digest ", &digest.0[..]].concat(),
            Self::Signature(key) => format!("key {key}").into_bytes(),
            Self::File(file) => [b"file ", file.as_os_str().as_encoded_bytes()].concat(),
        }
    }
}

impl fmt::Display for Proof {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Library => f.write_str("it is part of the library of this host"),
            Self::Digest(_) => f.write_str("its digest"),
            Self::Signature(key) => write!(f, "its signature by the key {}", key.name()),
            Self::File(file) => write!(f, "the file {}", file.display()),
        }
    }
}

/// How the settings of its package apply to a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// No settings of its package give permissions, and it is not part of the library.
    Unnamed,
    /// Completely: this proof shows that they apply to it.
    Proved(Proof),
    /// Its permissions do not apply: there is no proof.
    Unproved,
}

impl Standing {
    /// The kind of the proof: `library`, `digest`, `signature`, `file`, or `none` if it is missing.
    /// None if the settings give nothing that needs one.
    pub fn proof(&self) -> Option<&'static str> {
        Some(match self {
            Self::Unnamed => return None,
            Self::Unproved => "none",
            Self::Proved(Proof::Library) => "library",
            Self::Proved(Proof::Digest(_)) => "digest",
            Self::Proved(Proof::Signature(_)) => "signature",
            Self::Proved(Proof::File(_)) => "file",
        })
    }
}

/// A signature of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signed {
    /// The text in the format of minisign.
    pub text: Arc<str>,
    /// Whether the settings of the package name its key. If not, any key may have made it.
    pub vouched: bool,
}

/// The evidence about a component that is being loaded, besides its bytes.
#[derive(Default)]
pub(crate) struct Evidence {
    /// The digest of its file, if the component was made from another format.
    pub(crate) raw: Option<Digest>,
    /// The file, unless another user can change its content.
    pub(crate) file: Option<PathBuf>,
    /// The signature of its file, by any key.
    pub(crate) signature: Option<Arc<str>>,
    /// The keys in any settings that have signed its file.
    pub(crate) keys: Vec<PublicKey>,
    /// Why evidence is missing.
    pub(crate) doubts: Vec<String>,
}

impl Evidence {
    /// The evidence beside a file with these bytes.
    pub(crate) fn beside(rules: &Rules, file: &Path, bytes: &[u8]) -> Self {
        let mut found = Self {
            raw: Some(Digest::of(bytes)),
            ..Self::default()
        };
        let folder = file.parent().filter(|path| !path.as_os_str().is_empty());
        let folder = folder.unwrap_or_else(|| Path::new("."));
        let fault = windlass_files::foreign(file).or_else(|| windlass_files::foreign(folder));
        match fault {
            None => found.file = Some(place(file)),
            Some(fault) => found
                .doubts
                .push(format!("of the file or its folder: {fault}")),
        }
        match signature(file) {
            Ok(None) => {}
            Ok(Some(text)) => found.sign(rules, &text, bytes),
            Err(why) => found.doubts.push(why),
        }
        found
    }

    /// The evidence for bytes without a file, with an optional signature.
    pub(crate) fn of(rules: &Rules, bytes: &[u8], signature: Option<&str>) -> Self {
        let mut found = Self {
            raw: Some(Digest::of(bytes)),
            ..Self::default()
        };
        if let Some(text) = signature {
            found.sign(rules, text, bytes);
        }
        found
    }

    fn sign(&mut self, rules: &Rules, text: &str, bytes: &[u8]) {
        let signature: Signature = match text.parse() {
            Ok(signature) => signature,
            Err(error) => {
                self.doubts.push(format!("its signature: {error}"));
                return;
            }
        };
        // Drops the comments, which a stranger may have written.
        let text = signature.to_string();
        if text.len() <= minisign::LONGEST {
            self.signature = Some(text.into());
        }
        let table = rules.now();
        let settings = table.settings.values();
        let mut keys = settings
            .flat_map(|settings| &settings.proofs.keys)
            .peekable();
        if keys.peek().is_none() {
            return;
        }
        self.keys = keys
            .filter(|key| signature.is_of(key, bytes))
            .cloned()
            .collect();
        if self.keys.is_empty() {
            let text = "its signature is not of this file by a trusted key";
            self.doubts.push(text.to_owned());
        }
    }
}

/// The path of a file's signature.
pub(crate) fn signature_of(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".minisig");
    name.into()
}

fn signature(file: &Path) -> Result<Option<String>, String> {
    let file = signature_of(file);
    let unusable = |why: &dyn fmt::Display| format!("{}: {why}", file.display());
    let text = match windlass_files::read_regular(&file, minisign::LONGEST as u64) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| unusable(&error))?,
    };
    let text = String::from_utf8(text).map_err(|error| unusable(&error))?;
    Ok(Some(text))
}

/// The canonical path of a file, with the links of its folder resolved.
fn place(file: &Path) -> PathBuf {
    let whole = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
    match (whole.parent().map(std::fs::canonicalize), whole.file_name()) {
        (Some(Ok(folder)), Some(name)) => folder.join(name),
        _ => whole,
    }
}

/// How the settings of its package apply to a component.
pub(crate) fn standing(
    rules: &Rules,
    digest: &Digest,
    settings: Option<&Settings>,
    evidence: &Evidence,
) -> Standing {
    let proof = match rules.library.contains(digest) {
        true => Some(Proof::Library),
        false => settings.and_then(|settings| shown(digest, settings, evidence)),
    };
    if let Some(proof) = proof {
        // A digest needs no note.
        if proof != Proof::Digest(*digest) {
            note(rules, digest, &proof);
        }
        return Standing::Proved(proof);
    }
    let Some(settings) = settings else {
        return Standing::Unnamed;
    };
    match noted(rules, digest, settings) {
        Some(proof) => Standing::Proved(proof),
        None if settings.give(&rules.now().limits) => Standing::Unproved,
        None => Standing::Unnamed,
    }
}

/// The signature of a component, if it signs the component itself and not another file that
/// contains it.
pub(crate) fn signed(
    digest: &Digest,
    settings: Option<&Settings>,
    evidence: &Evidence,
) -> Option<Signed> {
    let text = evidence.signature.clone();
    let text = text.filter(|_| evidence.raw.as_ref() == Some(digest))?;
    let settings = settings.into_iter();
    let mut keys = settings.flat_map(|settings| &settings.proofs.keys);
    let vouched = keys.any(|key| evidence.keys.contains(key));
    Some(Signed { text, vouched })
}

/// The proof by the present evidence.
fn shown(digest: &Digest, settings: &Settings, evidence: &Evidence) -> Option<Proof> {
    let proofs = &settings.proofs;
    let is_it = |known: &&Digest| *known == digest || evidence.raw.as_ref() == Some(*known);
    let by_digest = || proofs.digests.iter().find(is_it).copied();
    let by_key = || proofs.keys.iter().find(|key| evidence.keys.contains(key));
    let by_file = || {
        let file = evidence.file.as_ref()?;
        proofs
            .files
            .iter()
            .map(|known| place(known))
            .find(|known| known == file)
    };
    by_digest()
        .map(Proof::Digest)
        .or_else(|| by_key().cloned().map(Proof::Signature))
        .or_else(|| by_file().map(Proof::File))
}

/// The proof of an earlier note that the settings still name.
fn noted(rules: &Rules, digest: &Digest, settings: &Settings) -> Option<Proof> {
    let proofs = &settings.proofs;
    let digests = proofs.digests.iter().copied().map(Proof::Digest);
    let keys = proofs.keys.iter().cloned().map(Proof::Signature);
    let files = proofs.files.iter().map(|file| Proof::File(place(file)));
    let mut all = [Proof::Library]
        .into_iter()
        .chain(digests)
        .chain(keys)
        .chain(files);
    all.find(|proof| {
        let text = proof.text();
        let tag = windlass_files::read(&note_of(rules, digest, &text), TAG_BYTES);
        tag.is_ok_and(|tag| rules.key.message(&[NOTE, &digest.0, &text]).verify(&tag))
    })
}

/// How long a note is, in bytes.
const TAG_BYTES: u64 = 32;

fn note(rules: &Rules, digest: &Digest, proof: &Proof) {
    let text = proof.text();
    let file = note_of(rules, digest, &text);
    let tag = rules.key.message(&[NOTE, &digest.0, &text]).tag();
    if windlass_files::read(&file, TAG_BYTES).is_ok_and(|there| there == tag) {
        return;
    }
    // Without the note, runs that began with the component lose its grants once its file has
    // changed.
    if let Err(error) = windlass_files::write(&file, &tag) {
        tracing::warn!(%digest, %error, "it cannot be noted that the component was proved");
    }
}

fn note_of(rules: &Rules, digest: &Digest, text: &[u8]) -> PathBuf {
    let of = Digest::of(text).hex();
    let of = of.get(..16).unwrap_or_default();
    let name = format!("{}.{of}.proved", digest.hex());
    rules.notes_dir.join(name)
}
