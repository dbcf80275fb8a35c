//! Broken PTX is an error, never a panic, and never without end.

use ptx_sim::Module;
#[allow(dead_code, reason = "parameters are for those who run the cases")]
mod cases;

use cases::cases;

fn texts() -> Vec<&'static str> {
    let mut texts: Vec<&str> = cases(0).iter().map(|c| c.ptx).collect();
    texts.sort_unstable();
    texts.dedup();
    texts
}

#[test]
fn truncated_anywhere() {
    for text in texts() {
        for end in (0..text.len()).step_by(31) {
            let _ = Module::parse(&text[..end]);
        }
        let last = text.trim_end().len() - 1;
        assert!(Module::parse(&text[..last]).is_err(), "{text}");
    }
}

#[test]
fn with_words_removed_doubled_or_swapped() {
    for text in texts() {
        let words: Vec<&str> = text.split_inclusive([' ', '\n', ',', '[', '.', '%', '{']).collect();
        for at in (0..words.len()).step_by(13) {
            let (head, tail) = words.split_at(at);
            let _ = Module::parse(&[head, &tail[1..]].concat().concat());
            let _ = Module::parse(&[head, &tail[..1], tail].concat().concat());
            let mut swapped = words.clone();
            swapped.swap(at, (at * 7 + 5) % words.len());
            let _ = Module::parse(&swapped.concat());
        }
    }
}

#[test]
fn with_numbers_out_of_range() {
    for text in texts() {
        for number in ["0", "1", "8", "16", "32", "128"] {
            for wrong in ["-1", "4294967295", "18446744073709551615", "3", "99999999999999999999"] {
                let _ = Module::parse(&text.replace(&format!(" {number};"), &format!(" {wrong};")));
                let _ = Module::parse(&text.replace(&format!("[{number}]"), &format!("[{wrong}]")));
                let _ = Module::parse(&text.replace(&format!("<{number}>"), &format!("<{wrong}>")));
                let _ = Module::parse(&text.replace(&format!("+{number}]"), &format!("+{wrong}]")));
            }
        }
    }
}

/// Reason for which a text is refused.
fn refused(text: &str) -> String {
    match Module::parse(text) {
        Ok(module) => module.refused().next().expect("it is refused").1.to_string(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn nested_deeply() {
    let deep = |open: &str| open.repeat(200_000);
    for text in [
        format!(".global .b32 x{} = {};", deep("[1]"), deep("{")),
        format!(".entry k() {}", deep("{")),
        format!(".entry k() {{ mov {};", deep("{")),
        format!(".entry k() {{ mov {};", deep("(")),
    ] {
        let said = refused(&text);
        assert!(said.contains("expected at most 64 braces within each other"), "{said}");
    }
}

#[test]
fn attributes_that_do_not_end() {
    let said = refused(".global .attribute(.managed");
    assert!(said.contains("expected `)`, found the end of the text"), "{said}");
}

#[test]
fn calls_that_double_at_each_step() {
    let mut text = String::from(".func f0() { ret; }\n");
    for step in 1..30 {
        text += &format!(".func f{step}() {{ call f{}; call f{}; ret; }}\n", step - 1, step - 1);
    }
    text += ".entry k() { call f29; ret; }";
    let said = refused(&text);
    assert!(said.contains("more than 1048576 instructions once calls are expanded"), "{said}");
}
