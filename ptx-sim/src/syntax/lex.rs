//! Tokens.

use crate::error::Error;

/// A token and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Token {
    pub kind: Kind,
    pub line: u32,
    /// Byte range in the text.
    pub start: usize,
    pub end: usize,
}

/// Token kinds.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Identifier, register or opcode stem.
    Word(String),
    /// A word after a dot: directive, modifier or component. The dot is not kept.
    Dotted(String),
    Int(u64),
    F32(u32),
    F64(u64),
    Text(String),
    Punct(char),
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'%')
}

/// Splits `text` into tokens; comments and whitespace vanish.
pub fn lex(text: &str) -> Result<Vec<Token>, Error> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut line = 1;
    let mut i = 0;
    let word_end = |mut j: usize| {
        while j < bytes.len() {
            if is_word(bytes[j]) {
                j += 1;
            } else if bytes[j..].starts_with(b"::") && bytes.get(j + 2).is_some_and(|&b| is_word(b))
            {
                j += 2;
            } else {
                break;
            }
        }
        j
    };
    while i < bytes.len() {
        let start = i;
        let first_line = line;
        let b = bytes[i];
        let kind = match b {
            b'\n' => {
                line += 1;
                i += 1;
                continue;
            }
            _ if b.is_ascii_whitespace() => {
                i += 1;
                continue;
            }
            b'/' if bytes[i..].starts_with(b"//") => {
                while i < bytes.len() && bytes[i] != b'\n' {
                    i += 1;
                }
                continue;
            }
            b'/' if bytes[i..].starts_with(b"/*") => {
                let length = text[i..].find("*/").ok_or_else(|| Error::Syntax {
                    line,
                    message: "a comment that never ends".into(),
                })?;
                line += text[i..i + length].matches('\n').count() as u32;
                i += length + 2;
                continue;
            }
            b'"' => {
                let length = text[i + 1..].find('"').ok_or_else(|| Error::Syntax {
                    line,
                    message: "a string that never ends".into(),
                })?;
                i += length + 2;
                Kind::Text(text[start + 1..i - 1].to_owned())
            }
            b'.' if bytes.get(i + 1).is_some_and(|&b| is_word(b)) => {
                i = word_end(i + 1);
                Kind::Dotted(text[start + 1..i].to_owned())
            }
            b'0'..=b'9' => {
                i = word_end(i);
                // A decimal fraction, as in `.version 8.5`.
                if bytes.get(i) == Some(&b'.')
                    && bytes.get(i + 1).is_some_and(u8::is_ascii_digit)
                    && bytes[start..i].iter().all(u8::is_ascii_digit)
                {
                    i = word_end(i + 1);
                }
                number(&text[start..i]).ok_or_else(|| Error::Syntax {
                    line,
                    message: format!("`{}` is not a number", &text[start..i]),
                })?
            }
            _ if is_word(b) => {
                // A scope never stands right after a name, so `::` belongs to modifiers only.
                while i < bytes.len() && is_word(bytes[i]) {
                    i += 1;
                }
                Kind::Word(text[start..i].to_owned())
            }
            _ if b.is_ascii_punctuation() => {
                i += 1;
                Kind::Punct(b as char)
            }
            _ => {
                return Err(Error::Syntax {
                    line,
                    message: format!("unexpected byte 0x{b:02x} in the text"),
                });
            }
        };
        tokens.push(Token { kind, line: first_line, start, end: i });
    }
    Ok(tokens)
}

fn number(word: &str) -> Option<Kind> {
    let lower = word.to_ascii_lowercase();
    if let Some(hex) = lower.strip_prefix("0f") {
        return u32::from_str_radix(hex, 16).ok().map(Kind::F32);
    }
    if let Some(hex) = lower.strip_prefix("0d") {
        return u64::from_str_radix(hex, 16).ok().map(Kind::F64);
    }
    if lower.contains('.') {
        return lower.parse::<f64>().ok().map(|x| Kind::F64(x.to_bits()));
    }
    let digits = lower.strip_suffix('u').unwrap_or(&lower);
    let value = if let Some(hex) = digits.strip_prefix("0x") {
        u64::from_str_radix(hex, 16)
    } else if let Some(bits) = digits.strip_prefix("0b") {
        u64::from_str_radix(bits, 2)
    } else if digits.len() > 1 && digits.starts_with('0') {
        u64::from_str_radix(digits, 8)
    } else {
        digits.parse()
    };
    value.ok().map(Kind::Int)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind> {
        lex(text).unwrap().into_iter().map(|t| t.kind).collect()
    }

    #[test]
    fn numbers_and_modifiers() {
        assert_eq!(
            kinds("cp.async.ca.shared::cta.2d 0x1FU 0f3F800000 -7 010"),
            vec![
                Kind::Word("cp".into()),
                Kind::Dotted("async".into()),
                Kind::Dotted("ca".into()),
                Kind::Dotted("shared::cta".into()),
                Kind::Dotted("2d".into()),
                Kind::Int(31),
                Kind::F32(0x3f80_0000),
                Kind::Punct('-'),
                Kind::Int(7),
                Kind::Int(8),
            ]
        );
    }

    #[test]
    fn lines_count_through_comments() {
        let tokens = lex("a // x\n/* b\n c */ d").unwrap();
        assert_eq!((tokens[0].line, tokens[1].line), (1, 3));
        assert!(lex("/* open").is_err());
    }
}
