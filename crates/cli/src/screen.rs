//! What the terminal can show, and text made so that it can: what objects say is shown as text, never obeyed.

use std::fmt::{self, Write as _};

use jiff::Timestamp;

/// Where a result is shown, and when.
#[derive(Clone, Debug)]
pub struct Screen {
    /// Columns; `None` in a pipe, where nothing is cut.
    pub width: Option<usize>,
    /// Colours are understood.
    pub colour: bool,
    /// More than ASCII is shown.
    pub unicode: bool,
    /// More columns were asked for.
    pub wide: bool,
    /// Ages are counted to here.
    pub now: Timestamp,
}

/// How something is to be taken, said by colour where there are any; the text says it as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// As it should be.
    Good,
    /// Not yet, or not quite.
    Notice,
    /// Wrong.
    Bad,
    /// Of less interest.
    Quiet,
}

impl Screen {
    /// The text in its colour.
    pub fn paint(&self, tone: Tone, text: &str) -> String {
        if !self.colour || text.is_empty() {
            return text.to_owned();
        }
        let code = match tone {
            Tone::Good => "32",
            Tone::Notice => "33",
            Tone::Bad => "31",
            Tone::Quiet => "2",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }

    /// Text of an object, on one line: control characters are shown instead of obeyed, and where only ASCII is shown, what is
    /// not ASCII becomes what looks most like it.
    pub fn clean(&self, text: &str) -> String {
        let mut clean = String::with_capacity(text.len());
        for character in text.chars() {
            match character {
                '\n' | '\r' | '\t' => clean.push(' '),
                _ if character.is_control() || is_deceptive(character) => {
                    clean.extend(character.escape_unicode());
                }
                _ if self.unicode || character.is_ascii() => clean.push(character),
                '–' | '—' | '−' => clean.push('-'),
                '…' => clean.push_str("..."),
                '→' => clean.push_str("->"),
                '“' | '”' => clean.push('"'),
                '‘' | '’' => clean.push('\''),
                _ => clean.push('?'),
            }
        }
        clean
    }

    /// The text in lines that fit beside an indent of so many columns; the first line stands beside a label already.
    pub fn wrap(&self, text: &str, indent: usize) -> String {
        let text = self.clean(text);
        let Some(width) = self.width else {
            return text;
        };
        // Narrower than this, a line breaks where the terminal breaks it.
        let room = width.saturating_sub(indent).max(20);
        let (mut wrapped, mut used) = (String::new(), 0);
        for word in text.split(' ').filter(|word| !word.is_empty()) {
            let length = width_of(word);
            if used > 0 && used + 1 + length > room {
                wrapped.push('\n');
                wrapped.push_str(&" ".repeat(indent));
                used = 0;
            } else if used > 0 {
                wrapped.push(' ');
                used += 1;
            }
            wrapped.push_str(word);
            used += length;
        }
        wrapped
    }

    /// How long ago, as kubectl says it.
    pub fn ago(&self, then: Timestamp) -> String {
        let seconds = self.now.duration_since(then).as_secs().max(0);
        duration(seconds)
    }
}

/// Adds to a text.
pub fn put(text: &mut String, more: fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    text.write_fmt(more).unwrap_or_default();
}

/// Characters that change the direction of what follows, or have no width: a name could pretend to be another.
fn is_deceptive(character: char) -> bool {
    matches!(character, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// `4s`, `3m10s`, `2h5m`, `12d`.
pub fn duration(seconds: i64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    let two = |large: i64, unit: char, small: i64, lesser: char| {
        if small == 0 {
            format!("{large}{unit}")
        } else {
            format!("{large}{unit}{small}{lesser}")
        }
    };
    match seconds {
        ..120 => format!("{seconds}s"),
        120..600 => two(minutes, 'm', seconds % 60, 's'),
        600..10_800 => format!("{minutes}m"),
        10_800..28_800 => two(hours, 'h', minutes % 60, 'm'),
        28_800..172_800 => format!("{hours}h"),
        _ => format!("{days}d"),
    }
}

/// Columns that a text takes, without its colours; one for each character.
pub fn width_of(text: &str) -> usize {
    let (mut width, mut escaped) = (0, false);
    for character in text.chars() {
        match (escaped, character) {
            (false, '\u{1b}') => escaped = true,
            (true, 'm') => escaped = false,
            (true, _) => {}
            (false, _) => width += 1,
        }
    }
    width
}

/// `1.2G`; `-` for what is not known.
pub fn bytes(bytes: Option<i64>) -> String {
    let Some(bytes) = bytes else {
        return "-".to_owned();
    };
    let units = ["B", "K", "M", "G", "T"];
    let (mut tenths, mut unit) = (bytes.saturating_mul(10), 0);
    while tenths >= 10_240 && unit + 1 < units.len() {
        tenths /= 1024;
        unit += 1;
    }
    let name = units.get(unit).copied().unwrap_or_default();
    if unit == 0 || tenths >= 1000 {
        format!("{}{name}", tenths / 10)
    } else {
        format!("{}.{}{name}", tenths / 10, tenths % 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn screen(width: Option<usize>, unicode: bool) -> Screen {
        Screen {
            width,
            colour: false,
            unicode,
            wide: false,
            now: Timestamp::from_second(1000).unwrap(),
        }
    }

    #[test]
    fn what_an_object_says_is_shown_and_not_obeyed() {
        let shown = screen(None, true).clean("a\u{1b}[31mred\u{7}\nb\u{202e}c");
        assert_eq!(shown, "a\\u{1b}[31mred\\u{7} b\\u{202e}c");
    }

    #[test]
    fn where_only_ascii_is_shown_all_of_it_is_ascii() {
        let shown = screen(None, false).clean("3 → 5 – “done” … ü");
        assert_eq!(shown, "3 -> 5 - \"done\" ... ?");
    }

    #[test]
    fn lines_fit_and_lose_no_word() {
        let text = "one two three four five six seven eight nine ten";
        let wrapped = screen(Some(32), true).wrap(text, 9);
        assert!(
            wrapped.lines().all(|line| line.trim_start().len() <= 23),
            "{wrapped}"
        );
        let words: Vec<&str> = wrapped.split_whitespace().collect();
        assert_eq!(words.join(" "), text);
        assert_eq!(screen(None, true).wrap(text, 9), text);
    }

    #[test]
    fn times_and_sizes_are_as_kubectl_says_them() {
        for (seconds, said) in [
            (0, "0s"),
            (119, "119s"),
            (190, "3m10s"),
            (240, "4m"),
            (7200, "120m"),
            (11_100, "3h5m"),
            (100_000, "27h"),
            (864_000, "10d"),
        ] {
            assert_eq!(duration(seconds), said);
        }
        for (size, said) in [
            (0, "0B"),
            (1023, "1023B"),
            (1536, "1.5K"),
            (20_480, "20.0K"),
            (123 << 20, "123M"),
            (5 << 29, "2.5G"),
        ] {
            assert_eq!(bytes(Some(size)), said);
        }
        assert_eq!(bytes(None), "-");
    }

    #[test]
    fn colours_take_no_columns() {
        let mut screen = screen(None, true);
        screen.colour = true;
        assert_eq!(width_of(&screen.paint(Tone::Bad, "down")), 4);
    }
}
