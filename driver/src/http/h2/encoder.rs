//! The sending side of HPACK (RFC 7541): a field that comes again is an index, as with browsers.

use super::hpack::{push_integer, OVERHEAD, STATIC, TABLE};
use std::collections::VecDeque;

/// The header blocks sent over one connection.
#[derive(Debug)]
pub struct Encoder {
    /// As the server's decoder has it: the newest first.
    table: VecDeque<(Vec<u8>, Vec<u8>)>,
    size: usize,
    capacity: usize,
    /// The least capacity since the last block; None when it is what it was.
    changed: Option<usize>,
}

impl Default for Encoder {
    fn default() -> Self {
        Encoder { table: VecDeque::new(), size: 0, capacity: TABLE, changed: None }
    }
}

impl Encoder {
    /// The server keeps a table of at most `bytes` (SETTINGS_HEADER_TABLE_SIZE); more than the default is not used.
    pub fn limit(&mut self, bytes: usize) {
        let capacity = bytes.min(TABLE);
        if capacity != self.capacity {
            self.changed = Some(self.changed.unwrap_or(capacity).min(capacity));
            self.capacity = capacity;
            self.evict(0);
        }
    }

    /// A header block begins: tells of a change of the table (RFC 7541, 4.2).
    pub fn begin(&mut self, out: &mut Vec<u8>) {
        if let Some(least) = self.changed.take() {
            push_integer(out, 0x20, 5, least);
            if least < self.capacity {
                push_integer(out, 0x20, 5, self.capacity);
            }
        }
    }

    /// Appends a field; `kept`: it is likely to come again, and enters the table.
    pub fn field(&mut self, out: &mut Vec<u8>, name: &[u8], value: &[u8], kept: bool) {
        let mut named = 0;
        for at in 0..STATIC.len() + self.table.len() {
            let (known, text) = self.at(at);
            if known == name {
                if text == value {
                    push_integer(out, 0x80, 7, at + 1);
                    return;
                }
                named = if named == 0 { at + 1 } else { named };
            }
        }
        let size = name.len() + value.len() + OVERHEAD;
        let kept = kept && size <= self.capacity / 2;
        let (pattern, bits) = if kept { (0x40, 6) } else { (0, 4) };
        push_integer(out, pattern, bits, named);
        if named == 0 {
            push_integer(out, 0, 7, name.len());
            out.extend_from_slice(name);
        }
        push_integer(out, 0, 7, value.len());
        out.extend_from_slice(value);
        if kept {
            self.evict(size);
            self.table.push_front((name.to_vec(), value.to_vec()));
            self.size += size;
        }
    }

    fn at(&self, index: usize) -> (&[u8], &[u8]) {
        match STATIC.get(index) {
            Some((name, value)) => (name.as_bytes(), value.as_bytes()),
            None => {
                let (name, value) = &self.table[index - STATIC.len()];
                (name, value)
            }
        }
    }

    /// Makes room for `size` bytes.
    fn evict(&mut self, size: usize) {
        while self.size + size > self.capacity {
            let Some((name, value)) = self.table.pop_back() else { return };
            self.size -= name.len() + value.len() + OVERHEAD;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::hpack::Decoder;
    use super::*;
    use crate::random::{Random, Stream};

    type Field = (String, String);

    fn written(encoder: &mut Encoder, fields: &[Field]) -> Vec<u8> {
        let mut block = Vec::new();
        encoder.begin(&mut block);
        for (name, value) in fields {
            encoder.field(&mut block, name.as_bytes(), value.as_bytes(), name != ":path");
        }
        block
    }

    fn read(decoder: &mut Decoder, block: &[u8]) -> Vec<Field> {
        let mut found = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        decoder.decode(block, 100, 1_000_000, |name, value| found.push((text(name), text(value)))).expect("a block");
        found
    }

    fn field(name: &str, value: &str) -> Field {
        (name.to_string(), value.to_string())
    }

    #[test]
    fn what_comes_again_is_an_index() {
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
        let fields = [
            field(":method", "GET"),
            field(":path", "/a?b"),
            field(":authority", "127.0.0.1:9080"),
            field("cookie", "JSESSIONID=0000abcdef; theme=dark"),
            field("x-own", ""),
        ];
        let first = written(&mut encoder, &fields);
        assert_eq!(read(&mut decoder, &first), fields);
        let second = written(&mut encoder, &fields);
        assert_eq!(read(&mut decoder, &second), fields);
        // The method, three fields of the table, and the path by its name with its text.
        assert_eq!(second.len(), 1 + 3 + (1 + 1 + "/a?b".len()));
        assert_eq!(second[0], 0x82);
        assert!(first.len() > 50, "{}", first.len());
    }

    #[test]
    fn both_ends_have_the_same_table_at_any_size() {
        let (mut encoder, mut decoder) = (Encoder::default(), Decoder::default());
        let mut random = Random::new(1, 1, Stream::Data);
        let mut draw = |most: i64| random.between(0, most) as usize;
        for block in 0..2000 {
            let fields: Vec<Field> = (0..draw(6))
                .map(|_| {
                    let name = ["cookie", "x-a", "x-b", ":path", "accept-encoding"][draw(4)];
                    field(name, &"v".repeat([0, 3, 40, 700, 3000][draw(4)] + draw(3)))
                })
                .collect();
            let bytes = written(&mut encoder, &fields);
            assert_eq!(read(&mut decoder, &bytes), fields, "block {block}");
            assert!(encoder.size <= encoder.capacity);
            if draw(9) == 0 {
                (0..=draw(2)).for_each(|_| encoder.limit([0, 100, 1000, 4096, 65_536][draw(4)]));
            }
        }
    }
}
