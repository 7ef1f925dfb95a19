//! Reads the downward API's annotations file: one `key="value"` per line, the value quoted as Go's
//! `%q` does (<https://pkg.go.dev/strconv#Quote>). Pure text; what a value means is not known here.

/// The value of `key`, or why it cannot be read; `None` when the file does not hold it.
pub(crate) fn find(file: &str, key: &str) -> Option<Result<String, &'static str>> {
    let quoted = file
        .lines()
        .find_map(|line| line.strip_prefix(key)?.strip_prefix('='))?;
    Some(unquote(quoted).ok_or("the annotation is not quoted as the downward API does"))
}

/// Undoes Go's `strconv.Quote`. Bytes that are no UTF-8 (`\xff`) become U+FFFD: Kubernetes keeps
/// annotations as UTF-8, so they cannot come from the API.
fn unquote(quoted: &str) -> Option<String> {
    let mut rest = quoted.strip_prefix('"')?.strip_suffix('"')?.chars();
    let mut value = String::with_capacity(quoted.len());
    while let Some(character) = rest.next() {
        value.push(match character {
            '\\' => unescape(&mut rest)?,
            '"' => return None,
            other => other,
        });
    }
    Some(value)
}

fn unescape(rest: &mut std::str::Chars<'_>) -> Option<char> {
    Some(match rest.next()? {
        'a' => '\u{7}',
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\u{b}',
        '\\' => '\\',
        '"' => '"',
        'x' => match hexadecimal(rest, 2)? {
            byte @ 0..0x80 => char::from_u32(byte)?,
            _ => char::REPLACEMENT_CHARACTER,
        },
        'u' => char::from_u32(hexadecimal(rest, 4)?)?,
        'U' => char::from_u32(hexadecimal(rest, 8)?)?,
        _ => return None,
    })
}

fn hexadecimal(rest: &mut std::str::Chars<'_>, digits: usize) -> Option<u32> {
    (0..digits).try_fold(0, |value, _| Some(value * 16 + rest.next()?.to_digit(16)?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As Go's `strconv.Quote`; which characters count as printable may differ, which is fine: both
    /// forms must read the same.
    fn quote(value: &str) -> String {
        let mut quoted = String::from('"');
        for character in value.chars() {
            match character {
                '\u{7}' => quoted.push_str("\\a"),
                '\u{8}' => quoted.push_str("\\b"),
                '\u{c}' => quoted.push_str("\\f"),
                '\n' => quoted.push_str("\\n"),
                '\r' => quoted.push_str("\\r"),
                '\t' => quoted.push_str("\\t"),
                '\u{b}' => quoted.push_str("\\v"),
                '\\' | '"' => quoted.extend(['\\', character]),
                ' '..='~' => quoted.push(character),
                other => quoted.push_str(&escape(u32::from(other))),
            }
        }
        quoted + "\""
    }

    fn escape(number: u32) -> String {
        match number {
            0..0x80 => format!("\\x{number:02x}"),
            0x80..0x1_0000 => format!("\\u{number:04x}"),
            _ => format!("\\U{number:08x}"),
        }
    }

    #[test]
    fn finds_the_key_and_only_the_key() {
        let file = "a.io/grant2=\"no\"\na.io/grant=\"{\\\"n\\\":\\\"é\\u00e9\\\"}\"\nb=\"x\\ny\"\n";
        assert_eq!(find(file, "a.io/grant"), Some(Ok("{\"n\":\"éé\"}".into())));
        assert_eq!(find(file, "b"), Some(Ok("x\ny".into())));
        assert_eq!(find(file, "a.io"), None);
        assert_eq!(find("", "b"), None);
    }

    #[test]
    fn says_when_a_value_is_not_quoted() {
        for value in [
            "",
            "x",
            "\"",
            "\"a",
            "\"\\\"",
            "\"\\q\"",
            "\"a\"b\"",
            "\"\\u12\"",
            "\"\\ud800\"",
        ] {
            assert!(
                find(&format!("k={value}\n"), "k").is_some_and(|read| read.is_err()),
                "{value}"
            );
        }
    }

    proptest! {
        #[test]
        fn reads_back_what_go_quotes(value in any::<String>(), other in any::<String>()) {
            let file = format!("a={}\nk={}\nz={}\n", quote(&other), quote(&value), quote(&other));
            prop_assert_eq!(find(&file, "k"), Some(Ok(value)));
        }

        #[test]
        fn reads_any_file_without_panic(file in any::<String>()) {
            find(&format!("k=\"{file}"), "k");
        }
    }
}
