//! HPACK (RFC 7541): reads header blocks within bounds.

use std::collections::VecDeque;
use std::sync::LazyLock;

/// What SETTINGS_HEADER_TABLE_SIZE is while nobody says otherwise.
pub(super) const TABLE: usize = 4096;
/// What an entry of the table counts besides its bytes (RFC 7541, 4.1).
pub(super) const OVERHEAD: usize = 32;
const LONGEST_CODE: usize = 30;
const END_OF_STRING: u16 = 256;

/// The header block cannot be read, or holds more than the bounds.
#[derive(Debug, PartialEq, Clone, Copy)]
pub enum Problem {
    Malformed,
    TooMany,
}

/// The receiving side of one connection.
#[derive(Debug)]
pub struct Decoder {
    table: VecDeque<(Vec<u8>, Vec<u8>)>,
    size: usize,
    capacity: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Default for Decoder {
    fn default() -> Self {
        Decoder { table: VecDeque::new(), size: 0, capacity: TABLE, name: Vec::new(), value: Vec::new() }
    }
}

impl Decoder {
    /// Calls `each` with the fields of a complete block: at most `fields` of them with `bytes` in all.
    pub fn decode(
        &mut self,
        block: &[u8],
        fields: usize,
        bytes: usize,
        mut each: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Problem> {
        let mut rest = block;
        let (mut fields_left, mut bytes_left) = (fields, bytes);
        let mut begun = false;
        while let Some(first) = rest.first().copied() {
            if first & 0xe0 == 0x20 {
                let capacity = integer(&mut rest, 5)?;
                if begun || capacity > TABLE {
                    return Err(Problem::Malformed);
                }
                self.capacity = capacity;
                self.evict(0);
                continue;
            }
            begun = true;
            self.name.clear();
            self.value.clear();
            let mut keep = false;
            if first & 0x80 != 0 {
                let index = integer(&mut rest, 7)?;
                let (name, value) = entry(&self.table, index)?;
                self.name.extend_from_slice(name);
                self.value.extend_from_slice(value);
            } else {
                keep = first & 0x40 != 0;
                match integer(&mut rest, if keep { 6 } else { 4 })? {
                    0 => string(&mut rest, &mut self.name)?,
                    index => self.name.extend_from_slice(entry(&self.table, index)?.0),
                }
                string(&mut rest, &mut self.value)?;
            }
            let size = self.name.len() + self.value.len() + OVERHEAD;
            fields_left = fields_left.checked_sub(1).ok_or(Problem::TooMany)?;
            bytes_left = bytes_left.checked_sub(size).ok_or(Problem::TooMany)?;
            each(&self.name, &self.value);
            if keep {
                self.evict(size);
                if size <= self.capacity {
                    self.table.push_front((self.name.clone(), self.value.clone()));
                    self.size += size;
                }
            }
        }
        Ok(())
    }

    /// Makes room for an entry of `size`.
    fn evict(&mut self, size: usize) {
        while self.size + size > self.capacity {
            let Some((name, value)) = self.table.pop_back() else { return };
            self.size -= name.len() + value.len() + OVERHEAD;
        }
    }
}

fn entry(table: &VecDeque<(Vec<u8>, Vec<u8>)>, index: usize) -> Result<(&[u8], &[u8]), Problem> {
    let at = index.checked_sub(1).ok_or(Problem::Malformed)?;
    match STATIC.get(at) {
        Some((name, value)) => Ok((name.as_bytes(), value.as_bytes())),
        None => table.get(at - STATIC.len()).map(|(n, v)| (&n[..], &v[..])).ok_or(Problem::Malformed),
    }
}

/// An integer with a prefix of `bits` (RFC 7541, 5.1), below 2^28.
fn integer(rest: &mut &[u8], bits: u32) -> Result<usize, Problem> {
    let (first, mut after) = rest.split_first().ok_or(Problem::Malformed)?;
    let most = (1usize << bits) - 1;
    let mut value = usize::from(*first) & most;
    if value == most {
        let mut shift = 0;
        loop {
            let (next, later) = after.split_first().ok_or(Problem::Malformed)?;
            after = later;
            value += usize::from(next & 0x7f) << shift;
            if next & 0x80 == 0 {
                break;
            }
            shift += 7;
            if shift > 21 {
                return Err(Problem::Malformed);
            }
        }
    }
    *rest = after;
    Ok(value)
}

fn string(rest: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Problem> {
    let coded = rest.first().is_some_and(|first| first & 0x80 != 0);
    let length = integer(rest, 7)?;
    if length > rest.len() {
        return Err(Problem::Malformed);
    }
    let (text, after) = rest.split_at(length);
    *rest = after;
    if coded {
        return huffman(text, out);
    }
    out.extend_from_slice(text);
    Ok(())
}

/// Codes by length: the first one, how many there are, and where their symbols begin in `sorted`.
struct Codes {
    /// Symbol and length for each byte that begins with a code of at most 8 bits.
    quick: [(u16, u8); 256],
    first: [u32; LONGEST_CODE + 1],
    count: [u32; LONGEST_CODE + 1],
    offset: [u32; LONGEST_CODE + 1],
    sorted: Vec<u16>,
}

/// The code is canonical (codes of one length are consecutive, in the order of the symbols), so its lengths say it all.
static CODES: LazyLock<Codes> = LazyLock::new(|| {
    let mut codes = Codes {
        quick: [(0, 0); 256],
        first: [0; LONGEST_CODE + 1],
        count: [0; LONGEST_CODE + 1],
        offset: [0; LONGEST_CODE + 1],
        sorted: (0..=END_OF_STRING).collect(),
    };
    codes.sorted.sort_by_key(|symbol| LENGTHS[usize::from(*symbol)]);
    LENGTHS.iter().for_each(|length| codes.count[usize::from(*length)] += 1);
    for length in 1..=LONGEST_CODE {
        codes.first[length] = (codes.first[length - 1] + codes.count[length - 1]) << 1;
        codes.offset[length] = codes.offset[length - 1] + codes.count[length - 1];
    }
    for byte in 0..256u32 {
        if let Some(found) = codes.slow(byte << 24, 1..=8) {
            codes.quick[byte as usize] = found;
        }
    }
    codes
});

impl Codes {
    /// Symbol and length of the code at the top of `window`.
    fn slow(&self, window: u32, lengths: std::ops::RangeInclusive<usize>) -> Option<(u16, u8)> {
        for length in lengths {
            let above = (window >> (32 - length)).wrapping_sub(self.first[length]);
            if above < self.count[length] {
                return Some((self.sorted[(self.offset[length] + above) as usize], length as u8));
            }
        }
        None
    }
}

fn huffman(text: &[u8], out: &mut Vec<u8>) -> Result<(), Problem> {
    let codes = &*CODES;
    let (mut bits, mut have) = (0u64, 0u32);
    let mut bytes = text.iter();
    loop {
        while have <= 56 {
            let Some(byte) = bytes.next() else { break };
            bits = bits << 8 | u64::from(*byte);
            have += 8;
        }
        let window =
            if have >= 32 { (bits >> (have - 32)) as u32 } else { ((bits << (32 - have)) & 0xffff_ffff) as u32 };
        let found = match codes.quick[(window >> 24) as usize] {
            (_, 0) => codes.slow(window, 9..=LONGEST_CODE),
            quick => Some(quick),
        };
        match found {
            Some((symbol, length)) if u32::from(length) <= have => {
                if symbol == END_OF_STRING {
                    return Err(Problem::Malformed);
                }
                out.push(symbol as u8);
                have -= u32::from(length);
            }
            _ => {
                // Only the beginning of the end of string may be left, less than a byte of it.
                let ones = (1u64 << have.min(8)) - 1;
                return if have < 8 && bits & ones == ones { Ok(()) } else { Err(Problem::Malformed) };
            }
        }
    }
}

pub(super) fn push_integer(out: &mut Vec<u8>, pattern: u8, bits: u32, value: usize) {
    let most = (1usize << bits) - 1;
    if value < most {
        out.push(pattern | value as u8);
        return;
    }
    out.push(pattern | most as u8);
    let mut rest = value - most;
    while rest >= 128 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Bits of each symbol's code, the end of string last (RFC 7541, appendix B).
#[rustfmt::skip]
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7,
    7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21,
    23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24,
    21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
];

/// RFC 7541, appendix A.
#[rustfmt::skip]
pub(super) const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

#[cfg(test)]
#[path = "hpack_tests.rs"]
mod tests;
