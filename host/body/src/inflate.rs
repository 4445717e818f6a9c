//! Removes content codings (RFC 9110, section 8.4): `gzip`, `deflate`, `br`, `zstd`.

use std::borrow::Cow;
use std::io::Read;

use flate2::bufread::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::memory::{Full, Growing, Memory};

/// The names of the codings that are removed, for people.
pub const CODINGS: &str = "gzip, deflate, br and zstd";
/// The most codings that one body may have.
const MAX_CODINGS: usize = 4;
/// Characters of an unknown name that an error repeats.
const SHOWN: usize = 40;
/// Bytes that are inflated at once.
const CHUNK: usize = 16 * 1024;
/// The state of a decoder of gzip and deflate, with its window of 32 KiB.
const DEFLATE_BYTES: usize = 128 * 1024;
/// The tables of a decoder of Brotli.
const BROTLI_TABLES: usize = 4 << 20;
/// The largest window of a frame of Zstandard in HTTP (RFC 9659).
const ZSTD_WINDOW: usize = 8 << 20;
/// The most bytes of one block of Zstandard (RFC 8878, section 3.1.1.2.3).
const ZSTD_BLOCK: usize = 128 * 1024;

/// Why a body cannot be inflated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Inflate {
    /// There is no such coding here.
    #[error("the content coding `{0}` is unknown; gzip, deflate, br and zstd are known")]
    Unknown(String),
    /// More codings than a body may have.
    #[error("there are more than {0} content codings")]
    TooMany(usize),
    /// The body is damaged, cut, or coded in another way.
    #[error("the bytes are no whole body in the content coding `{0}`")]
    Broken(&'static str),
    /// The body has more than this many bytes without its codings.
    #[error("it inflates to more than {0} bytes")]
    TooLarge(usize),
    /// There is no memory for the body.
    #[error("there is no memory for it")]
    NoMemory,
}

/// Whether `Content-Encoding` names a coding other than `identity`.
pub fn is_coded(encoding: &str) -> bool {
    names(encoding).next().is_some()
}

fn names(encoding: &str) -> impl DoubleEndedIterator<Item = &str> {
    let names = encoding.split(',').map(str::trim);
    names.filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case("identity"))
}

/// The body without the codings that `Content-Encoding` names, in at most `limit` bytes. `encoding`
/// is the value of that header, or the values of several joined by commas. An empty body has no
/// coding.
///
/// Memory is charged before it is allocated. The memory of the decoder is returned at the end, that
/// of the result stays charged.
///
/// # Errors
///
/// A coding is unknown, the body does not follow it or inflates to more than `limit` bytes, or
/// there is no memory.
pub fn inflate<'a>(
    encoding: &str,
    bytes: &'a [u8],
    limit: usize,
    memory: &mut dyn Memory,
) -> Result<Cow<'a, [u8]>, Inflate> {
    let names: Vec<&str> = names(encoding).take(MAX_CODINGS + 1).collect();
    if names.len() > MAX_CODINGS {
        return Err(Inflate::TooMany(MAX_CODINGS));
    }
    let codings = names.iter().map(|name| Coding::of(name));
    let codings: Vec<Coding> = codings.collect::<Result<_, _>>()?;
    let mut body = Cow::Borrowed(bytes);
    // The last coding was applied last.
    for coding in codings.into_iter().rev() {
        if body.is_empty() {
            break;
        }
        let mut inflated = Growing::new(limit, memory);
        let result = coding.inflate(&body, &mut inflated);
        let inflated = result.map(|()| inflated.take());
        if let Cow::Owned(before) = body {
            memory.discharge(before.capacity());
        }
        body = Cow::Owned(inflated.map_err(|fault| match fault {
            Fault::Full(Full::Limit) => Inflate::TooLarge(limit),
            Fault::Full(Full::Memory) => Inflate::NoMemory,
            Fault::Broken => Inflate::Broken(coding.name()),
        })?);
    }
    Ok(body)
}

#[derive(Clone, Copy)]
enum Coding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

enum Fault {
    Full(Full),
    Broken,
}

impl From<Full> for Fault {
    fn from(full: Full) -> Self {
        Self::Full(full)
    }
}

impl Coding {
    fn of(name: &str) -> Result<Self, Inflate> {
        Ok(match name.to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => Self::Gzip,
            "deflate" => Self::Deflate,
            "br" => Self::Brotli,
            "zstd" => Self::Zstd,
            _ => {
                let shown = name.chars().filter(|c| !c.is_control()).take(SHOWN);
                return Err(Inflate::Unknown(shown.collect()));
            }
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }

    fn inflate(self, bytes: &[u8], into: &mut Growing<'_>) -> Result<(), Fault> {
        // Beside the result; Zstandard charges its window as it fills.
        let decoder = match self {
            Self::Gzip | Self::Deflate => DEFLATE_BYTES,
            Self::Brotli => brotli_window(bytes).ok_or(Fault::Broken)? + BROTLI_TABLES,
            Self::Zstd => 2 * ZSTD_BLOCK,
        };
        into.charge(decoder)?;
        let result = match self {
            Self::Gzip => read(MultiGzDecoder::new(bytes), into),
            Self::Deflate => deflate(bytes, into),
            Self::Brotli => read(brotli_decompressor::Decompressor::new(bytes, CHUNK), into),
            Self::Zstd => zstd(bytes, into),
        };
        into.discharge(decoder);
        result
    }
}

/// Reads a body that reports its own damage.
fn read(mut from: impl Read, into: &mut Growing<'_>) -> Result<(), Fault> {
    let mut buffer = [0; CHUNK];
    loop {
        let read = from.read(&mut buffer).map_err(|_| Fault::Broken)?;
        if read == 0 {
            return Ok(());
        }
        into.push(buffer.get(..read).unwrap_or_default())?;
    }
}

/// `deflate` is the format of zlib, but some servers send its content without the frame, which
/// browsers accept.
fn deflate(bytes: &[u8], into: &mut Growing<'_>) -> Result<(), Fault> {
    let has_frame = match bytes {
        [first, second, ..] => {
            first & 0x0f == 8 && (u16::from(*first) << 8 | u16::from(*second)).is_multiple_of(31)
        }
        _ => false,
    };
    let mut decoder = Decompress::new(has_frame);
    let mut buffer = [0; CHUNK];
    let mut rest = bytes;
    loop {
        let (read, written) = (decoder.total_in(), decoder.total_out());
        let status = decoder.decompress(rest, &mut buffer, FlushDecompress::None);
        let status = status.map_err(|_| Fault::Broken)?;
        let read = usize::try_from(decoder.total_in() - read).unwrap_or_default();
        let written = usize::try_from(decoder.total_out() - written).unwrap_or_default();
        into.push(buffer.get(..written).unwrap_or_default())?;
        rest = rest.get(read..).unwrap_or_default();
        match status {
            Status::StreamEnd => return Ok(()),
            // The body is cut.
            _ if read == 0 && written == 0 => return Err(Fault::Broken),
            _ => {}
        }
    }
}

/// The window of a stream of Brotli, in bytes (RFC 7932, section 9.1). None if it is larger than
/// the RFC allows.
fn brotli_window(bytes: &[u8]) -> Option<usize> {
    let first = *bytes.first()?;
    let (short, long) = ((first >> 1) & 7, (first >> 4) & 7);
    let bits = match (first & 1, short, long) {
        (0, ..) => 16,
        (_, 0, 0) => 17,
        (_, 0, 1) => return None,
        (_, 0, long) => 8 + long,
        (_, short, _) => 17 + short,
    };
    Some(1 << bits)
}

/// Frames one after the other, with skippable ones among them.
fn zstd(bytes: &[u8], into: &mut Growing<'_>) -> Result<(), Fault> {
    let mut window = 0;
    let result = zstd_frames(bytes, &mut window, into);
    into.discharge(window);
    result
}

fn zstd_frames(bytes: &[u8], window: &mut usize, into: &mut Growing<'_>) -> Result<(), Fault> {
    let mut decoder = FrameDecoder::new();
    decoder.set_max_window_size(ZSTD_WINDOW as u64);
    let mut buffer = [0; CHUNK];
    let mut rest = bytes;
    while !rest.is_empty() {
        match decoder.reset(&mut rest) {
            Ok(()) => {}
            Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                length,
                ..
            })) => {
                let length = usize::try_from(length).map_err(|_| Fault::Broken)?;
                rest = rest.get(length..).ok_or(Fault::Broken)?;
                continue;
            }
            Err(_) => return Err(Fault::Broken),
        }
        while !decoder.is_finished() {
            // The decoder keeps what it has decoded, up to its window, twice while it grows.
            if *window < 2 * ZSTD_WINDOW {
                into.charge(2 * ZSTD_BLOCK)?;
                *window += 2 * ZSTD_BLOCK;
            }
            decoder
                .decode_blocks(&mut rest, BlockDecodingStrategy::UptoBlocks(1))
                .map_err(|_| Fault::Broken)?;
            loop {
                let read = decoder.read(&mut buffer).map_err(|_| Fault::Broken)?;
                if read == 0 {
                    break;
                }
                into.push(buffer.get(..read).unwrap_or_default())?;
            }
        }
        let wanted = decoder.get_checksum_from_data();
        if wanted.is_some() && wanted != decoder.get_calculated_checksum() {
            return Err(Fault::Broken);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
