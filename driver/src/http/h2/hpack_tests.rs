use super::*;

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().filter(|c| !c.is_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("hex")).collect()
}

fn decoded(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, Problem> {
    let mut found = Vec::new();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    decoder.decode(block, 100, 10_000, |name, value| found.push(format!("{}: {}", text(name), text(value))))?;
    Ok(found)
}

/// RFC 7541, C.6: three responses on one connection, Huffman coded, with a table of 256 bytes.
#[test]
fn the_examples_of_the_standard() {
    let mut decoder = Decoder { capacity: 256, ..Decoder::default() };
    let first = bytes(
        "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718 63c7 8f0b \
         97c8 e9ae 82ae 43d3",
    );
    let expected = [
        ":status: 302",
        "cache-control: private",
        "date: Mon, 21 Oct 2013 20:13:21 GMT",
        "location: https://www.example.com",
    ];
    assert_eq!(decoded(&mut decoder, &first).expect("valid"), expected);
    assert_eq!(decoder.size, 222);
    let second = decoded(&mut decoder, &bytes("4883 640e ffc1 c0bf")).expect("valid");
    assert_eq!(second[0], ":status: 307");
    assert_eq!(second[1..], expected[1..]);
    let third = bytes(
        "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 b335 dfdf \
         cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
    );
    let third = decoded(&mut decoder, &third).expect("valid");
    assert_eq!(third[4], "content-encoding: gzip");
    assert_eq!(third[5], "set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1");
    assert_eq!(decoder.size, 215);
}

#[test]
fn huffman_agrees_with_another_implementation() {
    for byte in 0..=255u8 {
        for text in [vec![byte], vec![byte, b'a', byte], vec![byte; 40]] {
            let mut coded = Vec::new();
            httlib_huffman::encode(&text, &mut coded).expect("any byte has a code");
            let mut back = Vec::new();
            assert_eq!(huffman(&coded, &mut back), Ok(()), "{text:?}");
            assert_eq!(back, text);
        }
    }
    for wrong in ["ff", "ffffffff", "00", "1fff", "fe"] {
        assert_eq!(huffman(&bytes(wrong), &mut Vec::new()), Err(Problem::Malformed), "{wrong}");
    }
}

#[test]
fn malformed_blocks_and_bounds() {
    let block = |hex: &str| decoded(&mut Decoder::default(), &bytes(hex));
    // Truncated, index 0, index beyond the table, string beyond the block, too long an integer, a table too large,
    // a change of the table behind a field.
    for wrong in ["ff", "80", "be", "c1", "40", "400561", "4005", "ffffffffffff7f", "3fe21f", "8220", "0082"] {
        assert_eq!(block(wrong), Err(Problem::Malformed), "{wrong}");
    }
    assert_eq!(block("20"), Ok(Vec::new()));
    let mut decoder = Decoder::default();
    assert_eq!(decoder.decode(&[0x82; 101], 100, 10_000, |_, _| {}), Err(Problem::TooMany));
    // A small block that unfolds into much: one entry of 4,000 bytes, referred to again and again.
    let mut bomb = vec![0x40, 1, b'a'];
    push_integer(&mut bomb, 0, 7, 4000);
    bomb.extend([b'x'; 4000]);
    bomb.extend([0xbe; 1000]);
    assert_eq!(Decoder::default().decode(&bomb, 100_000, 65_536, |_, _| {}), Err(Problem::TooMany));
}

#[test]
fn the_table_never_outgrows_its_size() {
    let mut decoder = Decoder::default();
    for round in 0..300 {
        let mut block = vec![0x40, 3];
        block.extend(format!("{round:03}").bytes());
        block.push(100);
        block.extend([b'v'; 100]);
        assert!(decoded(&mut decoder, &block).is_ok());
        assert!(decoder.size <= TABLE && decoder.table.len() <= 30);
    }
    let mut large = vec![0x40, 1, b'a'];
    push_integer(&mut large, 0, 7, 5000);
    large.extend([b'x'; 5000]);
    assert!(decoded(&mut decoder, &large).is_ok());
    assert_eq!((decoder.size, decoder.table.len()), (0, 0));
}
