//! Values found in responses: by JSON pointer and by CSS selector.

use lol_html::html_content::{Element, TextChunk};
use lol_html::{ElementContentHandlers, HtmlRewriter, MemorySettings, Selector, Settings};
use serde_json::Value;
use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

/// A JSON pointer (RFC 6901) in which `*` stands for every element of an array.
#[derive(Clone, Debug, PartialEq)]
pub struct Pointer {
    text: String,
    tokens: Vec<String>,
}

impl Pointer {
    pub fn parse(text: &str) -> Result<Self, String> {
        if !text.is_empty() && !text.starts_with('/') {
            return Err(format!("`{text}` is not a JSON pointer: it begins with `/`, such as /items/0/id"));
        }
        let tokens = text.split('/').skip(1).map(|token| token.replace("~1", "/").replace("~0", "~")).collect();
        Ok(Pointer { text: text.to_string(), tokens })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The values it names in `document`, in order.
    pub fn find<'a>(&self, document: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![document];
        for token in &self.tokens {
            let step = |value: &'a Value| -> Vec<&'a Value> {
                match value {
                    Value::Array(items) if token == "*" => items.iter().collect(),
                    Value::Array(items) => index(token).and_then(|at| items.get(at)).into_iter().collect(),
                    Value::Object(members) => members.get(token).into_iter().collect(),
                    _ => Vec::new(),
                }
            };
            found = found.into_iter().flat_map(step).collect();
        }
        found
    }
}

fn index(token: &str) -> Option<usize> {
    let plain = token == "0" || !token.starts_with(['0', '+']);
    plain.then(|| token.parse().ok()).flatten()
}

/// A JSON value as the text of a variable: strings without quotes, everything else as JSON. Null is no value.
pub fn text_of(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone().into_bytes()),
        other => Some(other.to_string().into_bytes()),
    }
}

/// What a page's open elements may take: 32 MiB.
fn memory() -> MemorySettings {
    MemorySettings { max_allowed_memory_usage: 32 << 20, ..MemorySettings::new() }
}

/// Elements of a page, and what of them is the value.
pub struct Css {
    text: String,
    selector: Selector,
    /// None for the text inside.
    attribute: Option<String>,
}

impl std::fmt::Debug for Css {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Css({})", self.text)
    }
}

impl Css {
    pub fn parse(text: &str, attribute: Option<String>) -> Result<Self, String> {
        let selector = text.parse().map_err(|error| format!("bad CSS selector `{text}`: {error}"))?;
        Ok(Css { text: text.to_string(), selector, attribute })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The values in `page`, in order; what is no HTML has none. Elements without the attribute are left out.
    pub fn find(&self, page: &[u8]) -> Vec<Vec<u8>> {
        let found: RefCell<Vec<Vec<u8>>> = RefCell::new(Vec::new());
        let handlers = ElementContentHandlers::default().element(|element: &mut Element<'_, '_>| {
            let value = match &self.attribute {
                Some(name) => element.get_attribute(name).map(|value| unescape(&value)),
                None => Some(Vec::new()),
            };
            found.borrow_mut().extend(value);
            Ok(())
        });
        let handlers = if self.attribute.is_none() {
            handlers.text(|chunk: &mut TextChunk<'_>| {
                if let Some(last) = found.borrow_mut().last_mut() {
                    last.extend_from_slice(chunk.as_str().as_bytes());
                }
                Ok(())
            })
        } else {
            handlers
        };
        let settings = Settings {
            element_content_handlers: vec![(Cow::Borrowed(&self.selector), handlers)],
            memory_settings: memory(),
            ..Settings::new()
        };
        let mut rewriter = HtmlRewriter::new(settings, |_: &[u8]| {});
        // What came before a mistake is found all the same.
        match rewriter.write(page) {
            Ok(()) => drop(rewriter.end()),
            Err(_) => drop(rewriter),
        }
        let mut values = found.into_inner();
        if self.attribute.is_none() {
            for value in &mut values {
                *value = unescape(String::from_utf8_lossy(value).trim());
            }
        }
        values
    }
}

/// Something a page embeds: where it is, and what the page said before it that links are relative to.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource {
    pub link: Vec<u8>,
    pub base: Option<Vec<u8>>,
}

/// What is seen while a page is read.
#[derive(Default)]
struct Seen {
    resources: Vec<Resource>,
    base: Option<Vec<u8>>,
    /// Open elements whose content a browser does not show.
    inert: usize,
}

/// What a browser fetches for `page`: images, scripts, style sheets and icons, in order of the page. Places within the
/// page and what is inside `template` and `noscript` are left out.
pub fn resources(page: &[u8]) -> Vec<Resource> {
    read(page).resources
}

/// The `<base href>` of `page`; the first one counts.
pub fn base_of(page: &[u8]) -> Option<Vec<u8>> {
    let named = |at: usize| page[at + 1..].get(..4).is_some_and(|name| name.eq_ignore_ascii_case(b"base"));
    memchr::memchr_iter(b'<', page).any(named).then(|| read(page).base).flatten()
}

fn read(page: &[u8]) -> Seen {
    const INERT: &str = "template, noscript";
    const BASE: &str = "base[href]";
    const EMBEDDED: [(&str, &str); 5] = [
        ("img[src]", "src"),
        ("script[src]", "src"),
        ("input[type=image][src]", "src"),
        ("link[rel~=stylesheet][href]", "href"),
        ("link[rel~=icon][href]", "href"),
    ];
    thread_local! {
        static SELECTORS: Vec<(Selector, &'static str)> = [(INERT, ""), (BASE, "base")]
            .into_iter()
            .chain(EMBEDDED)
            .filter_map(|(text, what)| Some((text.parse().ok()?, what)))
            .collect();
    }
    let seen = Rc::new(RefCell::new(Seen::default()));
    SELECTORS.with(|selectors| {
        let handler = |(selector, what): &'_ (Selector, &'static str)| {
            let (what, seen) = (*what, Rc::clone(&seen));
            let handlers = ElementContentHandlers::default().element(move |element: &mut Element<'_, '_>| {
                if what.is_empty() {
                    skip(element, &seen);
                    return Ok(());
                }
                let mut seen = seen.borrow_mut();
                if seen.inert > 0 {
                    return Ok(());
                }
                let link = element.get_attribute(if what == "base" { "href" } else { what }).unwrap_or_default();
                let link = link.trim();
                if what == "base" {
                    seen.base.get_or_insert_with(|| unescape(link));
                } else if !link.is_empty() && !link.starts_with('#') {
                    let base = seen.base.clone();
                    seen.resources.push(Resource { link: unescape(link), base });
                }
                Ok(())
            });
            (Cow::Owned(selector.clone()), handlers)
        };
        let settings = Settings {
            element_content_handlers: selectors.iter().map(handler).collect(),
            memory_settings: memory(),
            ..Settings::new()
        };
        let mut rewriter = HtmlRewriter::new(settings, |_: &[u8]| {});
        match rewriter.write(page) {
            Ok(()) => drop(rewriter.end()),
            Err(_) => drop(rewriter),
        }
    });
    seen.take()
}

/// Until the end of `element` nothing counts.
fn skip(element: &mut Element<'_, '_>, seen: &Rc<RefCell<Seen>>) {
    seen.borrow_mut().inert += 1;
    let seen = Rc::clone(seen);
    // Without an end tag it goes on to the end of the page.
    let _ = element.on_end_tag(Box::new(move |_| {
        let mut seen = seen.borrow_mut();
        seen.inert = seen.inert.saturating_sub(1);
        Ok(())
    }));
}

/// Character references that pages commonly hold, replaced.
pub fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.extend_from_slice(&rest.as_bytes()[..at]);
        rest = &rest[at..];
        let end = rest.bytes().take(12).position(|b| b == b';');
        match end.and_then(|end| Some((end, character(&rest[1..end])?))) {
            Some((end, character)) => {
                out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                rest = &rest[end + 1..];
            }
            None => {
                out.push(b'&');
                rest = &rest[1..];
            }
        }
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

fn character(name: &str) -> Option<char> {
    if let Some(number) = name.strip_prefix('#') {
        let code = match number.strip_prefix(['x', 'X']) {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        return char::from_u32(code);
    }
    Some(match name {
        "amp" => '&',
        "lt" => '<',
        "gt" => '>',
        "quot" => '"',
        "apos" => '\'',
        "nbsp" => '\u{a0}',
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_find_what_the_standard_says() {
        // The examples of RFC 6901, section 5.
        let document: Value = serde_json::from_str(
            r#"{"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "m~n": 8, " ": 7, "o": [{"id": 3}, {"id": null}]}"#,
        )
        .expect("JSON");
        let find = |text: &str| -> Vec<String> {
            let pointer = Pointer::parse(text).expect("a pointer");
            pointer.find(&document).iter().map(ToString::to_string).collect()
        };
        for (pointer, value) in
            [("/foo/0", "\"bar\""), ("/", "0"), ("/a~1b", "1"), ("/c%d", "2"), ("/m~0n", "8"), ("/ ", "7")]
        {
            assert_eq!(find(pointer), [value], "{pointer}");
        }
        assert_eq!(find("/foo/*"), ["\"bar\"", "\"baz\""]);
        assert_eq!(find("/o/*/id"), ["3", "null"]);
        for nothing in ["/foo/2", "/foo/-", "/foo/00", "/foo/bar", "/no"] {
            assert!(find(nothing).is_empty(), "{nothing}");
        }
        assert!(Pointer::parse("foo").is_err());
        assert_eq!(text_of(&Value::Null), None);
        assert_eq!(text_of(&Value::String("a\"b".into())), Some(b"a\"b".to_vec()));
    }

    fn css(selector: &str, attribute: Option<&str>, page: &str) -> Vec<String> {
        let css = Css::parse(selector, attribute.map(String::from)).expect("a selector");
        css.find(page.as_bytes()).into_iter().map(|v| String::from_utf8(v).expect("UTF-8")).collect()
    }

    #[test]
    fn selectors_find_text_and_attributes() {
        let page = r#"<!doctype html><div id=x><a class="item big" href="/a?b=1&amp;c=2">One <b>bold</b></a>
            <a class=item>Two</a><p><a class=item href='/c'> Three &lt;3 </a></p></div><script>"<a class=item href=/no>"</script>"#;
        assert_eq!(css("a.item", None, page), ["One bold", "Two", "Three <3"]);
        assert_eq!(css("a.item", Some("href"), page), ["/a?b=1&c=2", "/c"]);
        assert_eq!(css("div#x > a[href^='/a']", Some("href"), page), ["/a?b=1&c=2"]);
        assert!(css("a.none", None, page).is_empty());
        assert!(css("a", Some("href"), "\u{0}<<<a <").is_empty());
        assert!(Css::parse("a[", None).expect_err("bad").contains("bad CSS selector"));
    }

    #[test]
    fn what_a_browser_fetches() {
        let page = br#"<link rel="shortcut icon" href=/i.ico><link rel=stylesheet href="a.css?x=1&amp;y=2"><link rel=next href=/n>
            <img src=' b.png '><img src="data:image/png;base64,AA=="><img><script src="http://h/c.js"></script>
            <script>var x = "<img src=no.png>";</script><a href=/no><img src="\#top"></a><input type=image src=d.gif>"#;
        let found: Vec<String> =
            resources(page).into_iter().map(|found| String::from_utf8(found.link).expect("UTF-8")).collect();
        assert_eq!(
            found,
            ["/i.ico", "a.css?x=1&y=2", "b.png", "data:image/png;base64,AA==", "http://h/c.js", "\\#top", "d.gif"]
        );
        assert!(resources(b"\x00{}").is_empty());
    }

    #[test]
    fn what_a_browser_does_not_fetch() {
        let page = br#"<!-- <img src=comment.png> --><template><img src=t1.png><template><img src=t2.png></template>
            <img src=t3.png><base href=/t/></template><noscript><img src=n.png></noscript><img src=a.png>
            <base href="/deep/"><img src=b.png><base href=/second/><img src=c.png><template><img src=open.png>"#;
        let found: Vec<(String, Option<String>)> = resources(page)
            .into_iter()
            .map(|found| {
                let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
                (text(found.link), found.base.map(text))
            })
            .collect();
        let deep = Some("/deep/".to_string());
        assert_eq!(found, [("a.png".into(), None), ("b.png".into(), deep.clone()), ("c.png".into(), deep)]);
        assert_eq!(base_of(page), Some(b"/deep/".to_vec()));
        assert_eq!((base_of(b"<BaSe HREF='x&amp;y'>"), base_of(b"<basefont><b>")), (Some(b"x&y".to_vec()), None));
        assert_eq!(base_of(b"<!-- <base href=/no/> --><p>"), None);
    }

    #[test]
    fn character_references() {
        assert_eq!(unescape("a &amp; b &#65;&#x42; &nope; & &;"), "a & b AB &nope; & &;".as_bytes());
    }
}
