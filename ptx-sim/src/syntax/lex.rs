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
    let mut lexer = Lexer { text, at: 0, line: 1 };
    let mut tokens = Vec::new();
    loop {
        lexer.skip_blank()?;
        let (start, line) = (lexer.at, lexer.line);
        let Some(kind) = lexer.token()? else { return Ok(tokens) };
        tokens.push(Token { kind, line, start, end: lexer.at });
    }
}

/// A place in a text.
struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: u32,
}

impl<'a> Lexer<'a> {
    fn error<T>(&self, message: impl Into<String>) -> Result<T, Error> {
        Err(Error::Syntax { line: self.line, message: message.into() })
    }

    fn rest(&self) -> &'a [u8] {
        &self.text.as_bytes()[self.at..]
    }

    /// Goes past bytes of which `is` holds.
    fn skip_while(&mut self, is: impl Fn(u8) -> bool) {
        self.at += self.rest().iter().take_while(|&&b| is(b)).count();
    }

    /// Goes past whitespace and comments.
    fn skip_blank(&mut self) -> Result<(), Error> {
        loop {
            match self.rest() {
                [b'\n', ..] => {
                    self.line += 1;
                    self.at += 1;
                }
                [b, ..] if b.is_ascii_whitespace() => self.at += 1,
                [b'/', b'/', ..] => self.skip_while(|b| b != b'\n'),
                [b'/', b'*', ..] => {
                    let comment = &self.text[self.at..];
                    let Some(length) = comment.find("*/") else {
                        return self.error("a comment that never ends");
                    };
                    self.line += comment[..length].matches('\n').count() as u32;
                    self.at += length + 2;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Goes past a word with the scopes in it, as `L1::evict_first`.
    fn skip_scoped(&mut self) {
        loop {
            self.skip_while(is_word);
            match self.rest() {
                [b':', b':', b, ..] if is_word(*b) => self.at += 2,
                _ => return,
            }
        }
    }

    /// Takes the next token; none at the end.
    fn token(&mut self) -> Result<Option<Kind>, Error> {
        let start = self.at;
        let kind = match *self.rest() {
            [] => return Ok(None),
            [b'"', ..] => {
                let Some(length) = self.text[start + 1..].find('"') else {
                    return self.error("a string that never ends");
                };
                self.at += length + 2;
                Kind::Text(self.text[start + 1..self.at - 1].to_owned())
            }
            [b'.', b, ..] if is_word(b) => {
                self.at += 1;
                self.skip_scoped();
                Kind::Dotted(self.text[start + 1..self.at].to_owned())
            }
            [b'0'..=b'9', ..] => {
                self.skip_scoped();
                let whole = self.text[start..self.at].bytes().all(|b| b.is_ascii_digit());
                // A decimal fraction, as in `.version 8.5`.
                if let [b'.', b'0'..=b'9', ..] = self.rest()
                    && whole
                {
                    self.at += 1;
                    self.skip_scoped();
                }
                let word = &self.text[start..self.at];
                match number(word) {
                    Some(number) => number,
                    None => return self.error(format!("`{word}` is not a number")),
                }
            }
            [b, ..] if is_word(b) => {
                // A scope never stands right after a name, so `::` belongs to modifiers only.
                self.skip_while(is_word);
                Kind::Word(self.text[start..self.at].to_owned())
            }
            [b, ..] if b.is_ascii_punctuation() => {
                self.at += 1;
                Kind::Punct(b as char)
            }
            [b, ..] => return self.error(format!("unexpected byte 0x{b:02x} in the text")),
        };
        Ok(Some(kind))
    }
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
