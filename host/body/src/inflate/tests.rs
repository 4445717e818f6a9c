//! Bodies as servers send them, and bodies that harm.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
use proptest::collection::vec;
use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use super::*;
use crate::memory::Uncounted;

/// The text of each sample.
const TEXT: &str = "café ";
/// `TEXT` fifty times in Brotli.
const BROTLI: &str = "1b2b01f88d94a9e35b838c99a5aab0e1982d0e005607";
/// The same in Zstandard, with a checksum.
const ZSTD: &str = "28b52ffd642c006d000030636166c3a920010023514b11a8ea8c49";
/// 16 MiB of zeros in Brotli.
const BROTLI_BOMB: &str = "cbffff3ff82700e2b14020f7fe8fffff7ff04f00c4611180eefddf";
/// A frame with a window of 128 MiB.
const WIDE: &str = "28b52ffd008845000010616101003f012c";

/// A budget that records the most that was charged.
struct Budget {
    left: usize,
    used: usize,
    most: usize,
}

impl Budget {
    fn of(left: usize) -> Self {
        Self {
            left,
            used: 0,
            most: 0,
        }
    }
}

impl Memory for Budget {
    fn charge(&mut self, bytes: usize) -> bool {
        if bytes > self.left {
            return false;
        }
        self.left -= bytes;
        self.used += bytes;
        self.most = self.most.max(self.used);
        true
    }

    fn discharge(&mut self, bytes: usize) {
        self.left += bytes;
        self.used = self.used.checked_sub(bytes).expect("no more than charged");
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digits).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn raw(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// One text in each coding.
fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let text = TEXT.repeat(50);
    let text = text.as_bytes();
    vec![
        ("gzip", gzip(text)),
        ("deflate", zlib(text)),
        ("deflate", raw(text)),
        ("br", bytes(BROTLI)),
        ("zstd", bytes(ZSTD)),
    ]
}

fn inflated(encoding: &str, body: &[u8]) -> Result<Vec<u8>, Inflate> {
    inflate(encoding, body, 1 << 20, &mut Uncounted).map(Cow::into_owned)
}

#[test]
fn each_coding_is_removed() {
    let text = TEXT.repeat(50).into_bytes();
    for (encoding, body) in samples() {
        assert_eq!(inflated(encoding, &body), Ok(text.clone()), "{encoding}");
        let named = format!(" identity, {} ,", encoding.to_uppercase());
        assert_eq!(inflated(&named, &body), Ok(text.clone()), "{named}");
        assert!(is_coded(&named));
    }
    assert_eq!(inflated("x-gzip", &gzip(&text)), Ok(text.clone()));
    let twice = gzip(&bytes(BROTLI));
    assert_eq!(inflated("br, gzip", &twice), Ok(text.clone()));
    assert!(inflated("gzip, br", &twice).is_err());
    // Members of gzip and frames of Zstandard may follow each other.
    let two = [gzip(b"a"), gzip(b"b")].concat();
    assert_eq!(inflated("gzip", &two), Ok(b"ab".to_vec()));
    let skipped = b"\x50\x2a\x4d\x18\x03\0\0\0abc".as_slice();
    let two = [skipped, &bytes(ZSTD), skipped, &bytes(ZSTD)].concat();
    assert_eq!(
        inflated("zstd", &two).map(|it| it.len()),
        Ok(text.len() * 2)
    );
}

#[test]
fn a_body_without_a_coding_is_passed_on() {
    for encoding in ["", "identity", " , Identity,,"] {
        assert!(!is_coded(encoding));
        let body = inflate(encoding, b"x", 1, &mut Uncounted);
        assert!(matches!(body, Ok(Cow::Borrowed(b"x"))), "{encoding}");
    }
    // As in the answer to HEAD.
    for encoding in ["gzip", "br", "zstd", "deflate"] {
        assert_eq!(inflated(encoding, b""), Ok(Vec::new()));
    }
    assert_eq!(inflated("gzip", &gzip(b"")), Ok(Vec::new()));
}

#[test]
fn an_unknown_coding_is_named() {
    let unknown = |name: &str| Err(Inflate::Unknown(name.to_owned()));
    assert_eq!(inflated("compress", b"x"), unknown("compress"));
    assert_eq!(inflated("gzip, aes128gcm", b"x"), unknown("aes128gcm"));
    assert_eq!(inflated("\u{1b}[2J", b"x"), unknown("[2J"));
    let long = "x".repeat(1_000);
    assert_eq!(inflated(&long, b"x"), unknown(&long[..SHOWN]));
    let many = ["gzip"; MAX_CODINGS + 1].join(",");
    assert_eq!(inflated(&many, b"x"), Err(Inflate::TooMany(MAX_CODINGS)));
}

#[test]
fn a_body_that_is_cut_anywhere_is_damaged() {
    for (encoding, body) in samples() {
        for length in 1..body.len() {
            let cut = inflated(encoding, &body[..length]);
            let broken = matches!(cut, Err(Inflate::Broken(name)) if name == encoding);
            assert!(broken, "{encoding} {length} of {}: {cut:?}", body.len());
        }
    }
}

#[test]
fn a_body_in_another_coding_is_damaged() {
    for (encoding, _) in samples() {
        for body in [b"{\"a\": 1}".as_slice(), b"<html>", &[0; 32], &[0xff; 32]] {
            assert!(inflated(encoding, body).is_err(), "{encoding} {body:x?}");
        }
    }
    let mut wrong = gzip(b"abc");
    let at = wrong.len() - 6;
    wrong[at] ^= 1;
    assert_eq!(inflated("gzip", &wrong), Err(Inflate::Broken("gzip")));
    let mut wrong = bytes(ZSTD);
    *wrong.last_mut().unwrap() ^= 1;
    assert_eq!(inflated("zstd", &wrong), Err(Inflate::Broken("zstd")));
    // A stream of Brotli with a large window, which is not the format of the RFC.
    assert_eq!(
        inflated("br", &[0x11, 30, 0, 0]),
        Err(Inflate::Broken("br"))
    );
    assert_eq!(inflated("zstd", &bytes(WIDE)), Err(Inflate::Broken("zstd")));
}

#[test]
fn a_bomb_ends_at_the_limit_and_is_charged_while_it_inflates() {
    let zeros = vec![0; 12 << 20];
    let bombs = [
        ("gzip", gzip(&zeros)),
        ("deflate", zlib(&zeros)),
        ("deflate", raw(&zeros)),
        ("br", bytes(BROTLI_BOMB)),
        ("zstd", compress_to_vec(&*zeros, CompressionLevel::Fastest)),
        ("gzip, gzip", gzip(&gzip(&zeros))),
    ];
    for (encoding, bomb) in bombs {
        assert!(bomb.len() < 50_000, "{encoding}: {}", bomb.len());
        let limit = 1 << 20;
        let mut budget = Budget::of(64 << 20);
        let result = inflate(encoding, &bomb, limit, &mut budget);
        assert_eq!(result, Err(Inflate::TooLarge(limit)), "{encoding}");
        assert_eq!(budget.used, 0, "{encoding}: what fails returns its memory");
        assert!(budget.most < 24 << 20, "{encoding}: {}", budget.most);

        let mut budget = Budget::of(512 * 1024);
        let result = inflate(encoding, &bomb, limit, &mut budget);
        assert_eq!(result, Err(Inflate::NoMemory), "{encoding}");
        assert_eq!(budget.used, 0, "{encoding}");
    }
}

#[test]
fn a_result_stays_charged_and_its_decoder_does_not() {
    for (encoding, body) in samples() {
        let mut budget = Budget::of(16 << 20);
        let result = inflate(encoding, &body, 1 << 20, &mut budget).unwrap();
        let Cow::Owned(result) = result else {
            panic!("{encoding}")
        };
        assert_eq!(budget.used, result.capacity(), "{encoding}");
    }
    let mut budget = Budget::of(16 << 20);
    let body = gzip(&gzip(b"x"));
    let result = inflate("gzip, gzip", &body, 1 << 20, &mut budget).unwrap();
    assert_eq!(&*result, b"x");
    assert!(budget.used < 1024, "{}", budget.used);
}

#[test]
fn the_window_of_brotli_is_in_its_first_byte() {
    for (first, bits) in [(0x00, 16), (0x01, 17), (0x03, 18), (0x0f, 24), (0x21, 10)] {
        assert_eq!(brotli_window(&[first]), Some(1 << bits), "{first:x}");
    }
    assert_eq!(brotli_window(&[0x11]), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// No damage makes a decoder panic, and none makes it exceed its memory.
    #[test]
    fn no_bytes_make_it_panic(
        sample in 0_usize..5,
        changes in vec((0_usize..64, any::<u8>()), 0..4),
        tail: Vec<u8>,
    ) {
        let (encoding, mut body) = samples().swap_remove(sample);
        for (at, value) in changes {
            let at = at % body.len();
            body[at] = value;
        }
        body.extend(tail);
        let mut budget = Budget::of(64 << 20);
        let result = inflate(encoding, &body, 100_000, &mut budget);
        prop_assert!(result.map_or(true, |it| it.len() <= 100_000));
        prop_assert!(budget.most <= 24 << 20);
    }

    #[test]
    fn decoded_bytes_are_the_bytes_before_the_coding(body in vec(any::<u8>(), 0..5_000)) {
        let zstd = compress_to_vec(&*body, CompressionLevel::Fastest);
        for (encoding, coded) in
            [("gzip", gzip(&body)), ("deflate", zlib(&body)), ("deflate", raw(&body)), ("zstd", zstd)]
        {
            prop_assert_eq!(inflated(encoding, &coded), Ok(body.clone()), "{}", encoding);
        }
    }
}
