//! Content codings of responses (RFC 9110, 8.4.1), bounded in what they may grow to.

use super::error::ParseError;
use brotli_decompressor::Decompressor;
use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use std::io::Read;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    #[default]
    Identity,
    Gzip,
    Deflate,
    Brotli,
    /// One that cannot be undone here.
    Other,
}

/// Codings of one response, the one applied last at the end; more are no response.
pub const MOST_CODINGS: usize = 4;
/// Bytes that are decompressed at a time.
const PART: usize = 16 << 10;

impl Encoding {
    /// The codings of one header's list, but for `identity`.
    pub fn list(value: &[u8]) -> impl Iterator<Item = Self> + '_ {
        value.split(|b| *b == b',').map(Encoding::parse).filter(|coding| *coding != Encoding::Identity)
    }

    fn parse(value: &[u8]) -> Self {
        let value = value.trim_ascii();
        let is = |word: &[u8]| value.eq_ignore_ascii_case(word);
        if value.is_empty() || is(b"identity") {
            Encoding::Identity
        } else if is(b"gzip") || is(b"x-gzip") {
            Encoding::Gzip
        } else if is(b"deflate") {
            Encoding::Deflate
        } else if is(b"br") {
            Encoding::Brotli
        } else {
            Encoding::Other
        }
    }

    /// Decodes `body` to `out`, at most `limit` bytes.
    pub fn decode(self, body: &[u8], out: &mut Vec<u8>, limit: u64) -> Result<(), ParseError> {
        out.clear();
        let within = limit.saturating_add(1);
        let used = match self {
            Encoding::Identity => body.take(within).read_to_end(out),
            Encoding::Gzip => MultiGzDecoder::new(body).take(within).read_to_end(out).map(|_| body.len()),
            // Meant is the zlib format; some servers send the bare stream.
            Encoding::Deflate if is_zlib(body) => {
                let mut decoder = ZlibDecoder::new(body);
                decoder.by_ref().take(within).read_to_end(out).map(|_| decoder.total_in() as usize)
            }
            Encoding::Deflate => {
                let mut decoder = DeflateDecoder::new(body);
                decoder.by_ref().take(within).read_to_end(out).map(|_| decoder.total_in() as usize)
            }
            Encoding::Brotli => {
                let mut rest = body;
                let read = Decompressor::new(&mut rest, PART).take(within).read_to_end(out);
                // Its reader takes what it is given: a stream that ends early is an error, bytes behind it are not.
                read.map(|_| body.len())
            }
            Encoding::Other => return Err(ParseError::BadEncoding),
        };
        let used = used.map_err(|_| ParseError::BadEncoding)?;
        if out.len() as u64 > limit {
            return Err(ParseError::BodyTooLong);
        }
        if used < body.len() {
            return Err(ParseError::BadEncoding); // bytes behind its end
        }
        Ok(())
    }
}

fn is_zlib(body: &[u8]) -> bool {
    match body {
        [first, second, ..] => first & 15 == 8 && (u16::from(*first) << 8 | u16::from(*second)) % 31 == 0,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use flate2::Compression;
    use std::io::Write;

    fn decode(encoding: Encoding, body: &[u8], limit: u64) -> Result<Vec<u8>, ParseError> {
        let mut out = Vec::new();
        encoding.decode(body, &mut out, limit).map(|()| out)
    }

    #[test]
    fn every_coding_comes_back() {
        let text = b"the quick brown fox ".repeat(50);
        let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::default());
        let mut bare = DeflateEncoder::new(Vec::new(), Compression::default());
        for writer in [&mut gzip as &mut dyn Write, &mut zlib, &mut bare] {
            writer.write_all(&text).expect("in memory");
        }
        let (gzip, zlib, bare) =
            (gzip.finish().expect("gzip"), zlib.finish().expect("zlib"), bare.finish().expect("bare"));
        assert_eq!(decode(Encoding::Gzip, &gzip, 1000), Ok(text.clone()));
        assert_eq!(decode(Encoding::Deflate, &zlib, 1000), Ok(text.clone()));
        assert_eq!(decode(Encoding::Deflate, &bare, 1000), Ok(text.clone()));
        assert_eq!(decode(Encoding::Gzip, &gzip, 999), Err(ParseError::BodyTooLong));
        assert_eq!(decode(Encoding::Gzip, &gzip[..gzip.len() - 6], 1000), Err(ParseError::BadEncoding));
        let mut damaged = gzip.clone();
        let last = damaged.len() - 5;
        damaged[last] ^= 1; // the checksum
        assert_eq!(decode(Encoding::Gzip, &damaged, 1000), Err(ParseError::BadEncoding));
        assert_eq!(decode(Encoding::Gzip, b"plain text", 1000), Err(ParseError::BadEncoding));
        assert_eq!(decode(Encoding::Other, b"x", 1000), Err(ParseError::BadEncoding));
        for cut in [&zlib[..zlib.len() - 5], &zlib[..zlib.len() - 1], &bare[..bare.len() - 1], &bare[..3]] {
            assert_eq!(decode(Encoding::Deflate, cut, 1000), Err(ParseError::BadEncoding), "half a content");
        }
        for whole in [&gzip, &zlib, &bare] {
            let more = [&whole[..], b"more"].concat();
            let coding = if whole == &gzip { Encoding::Gzip } else { Encoding::Deflate };
            assert_eq!(decode(coding, &more, 1000), Err(ParseError::BadEncoding), "bytes behind its end");
        }
    }

    #[test]
    fn a_bomb_is_cut_at_the_limit() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
        gzip.write_all(&vec![0; 8 << 20]).expect("in memory");
        let bomb = gzip.finish().expect("gzip");
        let mut out = Vec::new();
        assert_eq!(Encoding::Gzip.decode(&bomb, &mut out, 1 << 16), Err(ParseError::BodyTooLong));
        assert_eq!(out.len(), (1 << 16) + 1);
    }
}
