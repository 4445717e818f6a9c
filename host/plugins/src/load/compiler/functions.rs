//! The function cache: compiled functions of earlier compilations.
//!
//! Plugins in one language share the runtime of the language, and two versions of a plugin share
//! most of their functions. So the process that compiles a large component takes functions that an
//! earlier process compiled, and gives back those that it compiled itself. The host keeps them
//! (`load/functions.rs`), a file for each compilation.
//!
//! A file is entries, and the tag over them. An entry is a key, the length of its value in four
//! bytes, and the value. A key is a hash over the function, the compiler and its settings, which
//! Cranelift makes. The key of the tag is of one file, and the host derives it from the key of its
//! user: so the functions are those that a compiler of this user has made.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use wasmtime::CacheStore;
use windlass_model::mac::{KEY_BYTES, Message};

/// The most files of functions that a compilation reads: a bit of [`Answered::used`] each.
pub(crate) const MAX_FILES: usize = 16;

/// How long the tag of a file is, in bytes.
pub(crate) const TAG_BYTES: usize = 32;

/// The key of an entry.
type Key = [u8; 32];

/// The first byte and the length of each value of a file.
type Places = FxHashMap<Key, (u64, u32)>;

/// The longest value of an entry, in bytes.
const VALUE_BYTES: u32 = 16 * 1024 * 1024;

/// A file of functions, by its number, with the key of its tag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FunctionFile {
    pub(crate) no: u128,
    pub(crate) key: [u8; KEY_BYTES],
}

impl FunctionFile {
    pub(crate) fn path(&self, folder: &Path) -> PathBuf {
        folder.join(format!("{:032x}", self.no))
    }
}

/// The function cache of one compilation, as the host offers it to the process.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) folder: PathBuf,
    /// The key for the tag of the functions that the process gives back.
    pub(crate) key: [u8; KEY_BYTES],
    /// The most bytes of functions that it gives back.
    pub(crate) most: u64,
    /// The files, at most [`MAX_FILES`]. The last use of the first one is the latest.
    pub(crate) files: Vec<FunctionFile>,
}

impl Offer {
    /// The offer as a part of a request; empty without one.
    pub(super) fn encode(offer: Option<&Self>) -> Vec<u8> {
        let Some(offer) = offer else {
            return Vec::new();
        };
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&offer.key);
        bytes.extend_from_slice(&offer.most.to_le_bytes());
        bytes.push(offer.files.len().min(MAX_FILES) as u8);
        for file in offer.files.iter().take(MAX_FILES) {
            bytes.extend_from_slice(&file.no.to_le_bytes());
            bytes.extend_from_slice(&file.key);
        }
        bytes.extend_from_slice(offer.folder.as_os_str().as_bytes());
        bytes
    }

    /// The offer of a request. None: it has none.
    ///
    /// # Errors
    ///
    /// The bytes are no offer.
    pub(super) fn decode(mut bytes: &[u8]) -> io::Result<Option<Self>> {
        if bytes.is_empty() {
            return Ok(None);
        }
        let (key, most) = (array(&mut bytes)?, u64::from_le_bytes(array(&mut bytes)?));
        let [count] = array(&mut bytes)?;
        let mut files = Vec::new();
        for _ in 0..count {
            let no = u128::from_le_bytes(array(&mut bytes)?);
            let key = array(&mut bytes)?;
            files.push(FunctionFile { no, key });
        }
        let folder = std::ffi::OsString::from_vec(bytes.to_vec()).into();
        Ok(Some(Self {
            folder,
            key,
            most,
            files,
        }))
    }
}

/// The next bytes of a source.
fn array<const N: usize>(source: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    source.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// The functions that a compilation gives back.
pub(super) struct GivenBack {
    /// A bit for each file of the offer: some of its functions were used.
    pub(super) used: u32,
    /// A whole file; empty if there are no new functions.
    pub(super) file: Vec<u8>,
}

/// The function cache in the process that compiles.
#[derive(Debug)]
pub(super) struct Functions {
    files: Vec<Entries>,
    used: AtomicU32,
    made: Mutex<Vec<u8>>,
    key: [u8; KEY_BYTES],
    /// The most bytes of `made`.
    most: usize,
}

/// A file, and where its values stand.
#[derive(Debug)]
struct Entries {
    /// Its number in the offer.
    index: usize,
    file: File,
    places: Places,
}

impl Functions {
    /// Opens the files of an offer. A file that is gone or damaged is left out.
    pub(super) fn open(offer: &Offer) -> Self {
        let files = offer.files.iter().enumerate();
        let entries = files.filter_map(|(index, file)| {
            let (file, places) = read(&file.path(&offer.folder), &file.key).ok()?;
            Some(Entries {
                index,
                file,
                places,
            })
        });
        Self {
            files: entries.collect(),
            used: AtomicU32::new(0),
            made: Mutex::default(),
            key: offer.key,
            most: usize::try_from(offer.most)
                .unwrap_or(usize::MAX)
                .saturating_sub(TAG_BYTES),
        }
    }

    /// The functions that are new since the last call.
    pub(super) fn give_back(&self) -> GivenBack {
        let mut file = std::mem::take(&mut *self.made.lock());
        if !file.is_empty() {
            let tag = Message::begin(&self.key, &[&file]).tag();
            file.extend_from_slice(&tag);
        }
        GivenBack {
            used: self.used.load(Ordering::Acquire),
            file,
        }
    }
}

impl CacheStore for Functions {
    fn get(&self, key: &[u8]) -> Option<Cow<'_, [u8]>> {
        let key: Key = key.try_into().ok()?;
        let found = |entries: &Entries| {
            let (at, bytes) = *entries.places.get(&key)?;
            let mut value = vec![0; bytes as usize];
            entries.file.read_exact_at(&mut value, at).ok()?;
            self.used.fetch_or(1 << entries.index, Ordering::AcqRel);
            Some(Cow::Owned(value))
        };
        self.files.iter().find_map(found)
    }

    fn insert(&self, key: &[u8], value: Vec<u8>) -> bool {
        let (Ok(key), Ok(bytes)) = (Key::try_from(key), u32::try_from(value.len())) else {
            return false;
        };
        let mut made = self.made.lock();
        let grown = made.len() + key.len() + 4 + value.len();
        if bytes > VALUE_BYTES || grown > self.most {
            return false;
        }
        made.extend_from_slice(&key);
        made.extend_from_slice(&bytes.to_le_bytes());
        made.extend_from_slice(&value);
        true
    }
}

/// Reads a file of functions, and checks its tag.
fn read(path: &Path, key: &[u8; KEY_BYTES]) -> io::Result<(File, Places)> {
    let damaged = || io::Error::from(io::ErrorKind::InvalidData);
    let file = File::open(path)?;
    let end = file.metadata()?.len().checked_sub(TAG_BYTES as u64);
    let end = end.ok_or_else(damaged)?;
    let mut source = BufReader::with_capacity(PART_BYTES, &file);
    let mut message = Message::begin(key, &[]);
    let mut places = Places::default();
    let (mut at, mut part) = (0, vec![0; PART_BYTES]);
    while at < end {
        let (entry, length): (Key, [u8; 4]) = (array(&mut source)?, array(&mut source)?);
        message.add(&entry);
        message.add(&length);
        let bytes = u32::from_le_bytes(length);
        at += (entry.len() + length.len()) as u64;
        if bytes > VALUE_BYTES || at + u64::from(bytes) > end {
            return Err(damaged());
        }
        places.insert(entry, (at, bytes));
        at += u64::from(bytes);
        let mut left = bytes as usize;
        while left > 0 {
            let part = part.get_mut(..left.min(PART_BYTES)).unwrap_or_default();
            source.read_exact(part)?;
            message.add(part);
            left -= part.len();
        }
    }
    let tag: [u8; TAG_BYTES] = array(&mut source)?;
    if message.verify(&tag) {
        Ok((file, places))
    } else {
        Err(damaged())
    }
}

/// The bytes that are read at once.
const PART_BYTES: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: [u8; KEY_BYTES] = [7; KEY_BYTES];

    fn offer(folder: &Path, files: &[FunctionFile], most: u64) -> Offer {
        Offer {
            folder: folder.to_owned(),
            key: KEY,
            most,
            files: files.to_vec(),
        }
    }

    fn key(byte: u8) -> Key {
        [byte; 32]
    }

    /// Writes a file with two functions.
    fn written(folder: &Path, no: u128) -> FunctionFile {
        let functions = Functions::open(&offer(folder, &[], 1_000));
        assert!(functions.insert(&key(1), vec![1; 100]));
        assert!(functions.insert(&key(2), Vec::new()));
        let file = FunctionFile { no, key: KEY };
        std::fs::write(file.path(folder), functions.give_back().file).unwrap();
        file
    }

    #[test]
    fn functions_are_found_in_the_files_of_earlier_compilations() {
        let folder = tempfile::tempdir().unwrap();
        let gone = FunctionFile { no: 9, key: KEY };
        let files = [gone, written(folder.path(), 3)];
        let functions = Functions::open(&offer(folder.path(), &files, 1_000));
        assert_eq!(functions.get(&key(3)), None);
        assert_eq!(functions.get(b"short"), None);
        assert_eq!(functions.give_back().used, 0);
        assert_eq!(functions.get(&key(1)).as_deref(), Some(&[1; 100][..]));
        assert_eq!(functions.get(&key(2)).as_deref(), Some(&[][..]));
        let given = functions.give_back();
        assert_eq!(given.used, 0b10);
        assert!(given.file.is_empty(), "there are no new functions");
    }

    #[test]
    fn new_functions_are_given_back_up_to_a_size() {
        let folder = tempfile::tempdir().unwrap();
        let most = (36 + 100 + TAG_BYTES) as u64;
        let functions = Functions::open(&offer(folder.path(), &[], most));
        assert!(!functions.insert(&key(1), vec![0; 101]));
        assert!(functions.insert(&key(1), vec![0; 100]));
        assert!(!functions.insert(&key(2), Vec::new()));
        assert!(!functions.insert(b"short", Vec::new()));
        assert_eq!(functions.give_back().file.len() as u64, most);
    }

    #[test]
    fn a_file_that_is_damaged_anywhere_or_has_another_key_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let file = written(folder.path(), 1);
        let path = file.path(folder.path());
        let whole = std::fs::read(&path).unwrap();
        let is_left_out = |file: FunctionFile| {
            let functions = Functions::open(&offer(folder.path(), &[file], 1_000));
            functions.files.is_empty()
        };
        assert!(!is_left_out(file));
        let key = [8; KEY_BYTES];
        assert!(is_left_out(FunctionFile { key, ..file }));
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x80;
            std::fs::write(&path, &damaged).unwrap();
            assert!(is_left_out(file), "the byte {at}");
            std::fs::write(&path, &whole[..at]).unwrap();
            assert!(is_left_out(file), "{at} bytes");
        }
    }

    #[test]
    fn an_offer_arrives_as_it_was_sent() {
        let file = FunctionFile { no: 5, key: KEY };
        let sent = offer(Path::new("/a/b"), &[file; 3], 77);
        let bytes = Offer::encode(Some(&sent));
        let got = Offer::decode(&bytes).unwrap().unwrap();
        assert_eq!(format!("{got:?}"), format!("{sent:?}"));
        assert!(Offer::decode(&[]).unwrap().is_none());
        for cut in 1..32 + 8 + 1 + 3 * 48 {
            assert!(Offer::decode(&bytes[..cut]).is_err(), "{cut} bytes");
        }
    }
}
