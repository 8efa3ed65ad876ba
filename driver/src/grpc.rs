//! gRPC: methods as descriptors tell of them, and messages as JSON.

use crate::nearest::hint;
use crate::textfile;
use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, MethodDescriptor};
use serde_json::Deserializer;
use std::path::Path;

/// Bytes of a file that `protos` names.
const LARGEST: u64 = 64 << 20;

const STATUSES: [&str; 17] = [
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
];

/// What `path` describes: a `.proto` file, whose imports are found beside it, or a set of descriptors as
/// `protoc --descriptor_set_out --include_imports` writes it.
pub fn pool(path: &Path) -> Result<DescriptorPool, String> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let one_line = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let bytes = textfile::read(path, LARGEST).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    if path.extension().is_some_and(|extension| extension == "proto") {
        let set = protox::compile([path], [folder]).map_err(|error| one_line(format!("{error:?}")))?;
        return DescriptorPool::from_file_descriptor_set(set).map_err(|error| one_line(error.to_string()));
    }
    DescriptorPool::decode(&bytes[..]).map_err(|error| one_line(format!("no set of descriptors: {error}")))
}

/// The method with the path `/package.Service/Method`.
pub fn method(pools: &[DescriptorPool], path: &str) -> Result<MethodDescriptor, String> {
    let services = || pools.iter().flat_map(DescriptorPool::services);
    let all = services().flat_map(|service| service.methods().collect::<Vec<_>>());
    let mut names = Vec::new();
    for method in all {
        let name = format!("/{}/{}", method.parent_service().full_name(), method.name());
        if name == path {
            return Ok(method);
        }
        names.push(name);
    }
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    Err(format!("no method `{path}` in `protos`{}", hint(path, &known)))
}

/// Appends the message that `json` is, with the prefix of its length.
pub fn frame(kind: &MessageDescriptor, json: &[u8], out: &mut Vec<u8>) -> Result<(), String> {
    let mut source = Deserializer::from_slice(json);
    let message = DynamicMessage::deserialize(kind.clone(), &mut source).and_then(|message| {
        source.end()?;
        Ok(message)
    });
    let message = message.map_err(|error| format!("no {}: {error}", kind.full_name()))?;
    out.push(0);
    out.extend_from_slice(&(message.encoded_len() as u32).to_be_bytes());
    message.encode(out).map_err(|error| error.to_string())
}

/// A message as JSON.
pub fn json(kind: &MessageDescriptor, bytes: &[u8]) -> Result<Vec<u8>, String> {
    let message = DynamicMessage::decode(kind.clone(), bytes);
    let text = message
        .map_err(|error| error.to_string())
        .and_then(|message| serde_json::to_vec(&message).map_err(|error| error.to_string()));
    text.map_err(|error| format!("no {}: {error}", kind.full_name()))
}

/// A status by its name or number.
pub fn status(text: &str) -> Result<u32, String> {
    let number = STATUSES.iter().position(|name| *name == text).map(|at| at as u32);
    number
        .or_else(|| text.parse().ok().filter(|code| (*code as usize) < STATUSES.len()))
        .ok_or_else(|| format!("`{text}` is not a status of gRPC{}", hint(text, &STATUSES)))
}

/// What the trailers say: the status, and it and its message in words. None where they say nothing.
pub fn outcome(fields: &[(String, Vec<u8>)]) -> Option<(u32, String)> {
    let value = |wanted: &str| {
        let found = fields.iter().rev().find(|(name, _)| name.eq_ignore_ascii_case(wanted));
        found.map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    };
    let code: u32 = value("grpc-status")?.trim().parse().ok()?;
    let name = STATUSES.get(code as usize).map_or_else(|| format!("status {code}"), |name| (*name).to_string());
    let text = value("grpc-message").unwrap_or_default();
    Some((code, if text.is_empty() { name } else { format!("{name}: {text}") }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROTO: &str = "syntax = \"proto3\";\npackage shop;\nmessage Query { string symbol = 1; int64 count = 2; }\n\
                         message Quote { double price = 1; repeated string notes = 2; }\n\
                         service Quotes { rpc Get(Query) returns (Quote); rpc Watch(Query) returns (stream Quote); }\n";

    fn shop() -> DescriptorPool {
        let folder = std::env::temp_dir().join(format!("leadline-load-proto-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let file = folder.join("shop.proto");
        std::fs::write(&file, PROTO).expect("a file");
        let source = pool(&file).expect("a proto file");
        std::fs::write(folder.join("shop.desc"), source.encode_to_vec()).expect("a file");
        let compiled = pool(&folder.join("shop.desc")).expect("a set of descriptors");
        std::fs::write(&file, PROTO.replace("Query query", "").replace("(Query)", "(Qery)")).expect("a file");
        let error = pool(&file).expect_err("a name that is not there");
        assert!(error.contains("Qery") && !error.contains('\n'), "{error}");
        std::fs::File::create(&file).and_then(|file| file.set_len(LARGEST + 1)).expect("a file");
        assert!(pool(&file).is_err_and(|text| text.ends_with("larger than 64 MiB")));
        std::fs::remove_dir_all(&folder).expect("removed");
        compiled
    }

    #[test]
    fn messages_go_to_bytes_and_back() {
        let pools = [shop()];
        let watch = method(&pools, "/shop.Quotes/Watch").expect("a method");
        assert!(watch.is_server_streaming() && !watch.is_client_streaming());
        let error = method(&pools, "/shop.Quotes/Wach").expect_err("not there");
        assert!(error.ends_with("did you mean `/shop.Quotes/Watch`?"), "{error}");
        let mut bytes = Vec::new();
        frame(&watch.input(), br#"{"symbol": "S1", "count": 300}"#, &mut bytes).expect("a message");
        assert_eq!(bytes, b"\0\0\0\0\x07\x0a\x02S1\x10\xac\x02");
        assert_eq!(json(&watch.input(), &bytes[5..]).expect("a message"), br#"{"symbol":"S1","count":"300"}"#);
        for wrong in [&br#"{"symbl": "S1"}"#[..], br#"{"count": "x"}"#, b"[]", b"{} {}"] {
            assert!(frame(&watch.input(), wrong, &mut Vec::new()).is_err_and(|text| text.starts_with("no shop.Query")));
        }
        assert!(json(&watch.output(), b"\x09\0").is_err());
    }

    #[test]
    fn statuses_have_names() {
        assert_eq!((status("NOT_FOUND"), status("14")), (Ok(5), Ok(14)));
        assert!(status("NOTFOUND").is_err_and(|text| text.contains("did you mean `NOT_FOUND`?")));
        let fields = |pairs: &[(&str, &str)]| {
            pairs.iter().map(|(name, value)| (name.to_string(), value.as_bytes().to_vec())).collect::<Vec<_>>()
        };
        let gone = fields(&[("grpc-status", "5"), ("grpc-message", "no S1")]);
        assert_eq!(outcome(&gone), Some((5, "NOT_FOUND: no S1".into())));
        assert_eq!(outcome(&fields(&[("grpc-status", "0")])), Some((0, "OK".into())));
        assert_eq!(outcome(&fields(&[("grpc-message", "x")])), None);
    }
}
