//! Why a piece of work was not done: a cause for the operator, and a sentence for people. Errors of the store and of etcd
//! are quoted as they are, with what lies below them, on one line.

use std::error::Error;

use archive::work::{Answer, Cause};

/// A failure, told in one line.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Fault {
    pub(crate) cause: Cause,
    pub(crate) message: String,
}

pub(crate) type Result<T> = std::result::Result<T, Fault>;

impl Fault {
    pub(crate) fn new(cause: Cause, message: impl Into<String>) -> Self {
        let message = one_line(&message.into());
        Self { cause, message }
    }

    /// What could not be done, and the words of the error with all that lies below it.
    pub(crate) fn of(cause: Cause, what: &str, error: &(dyn Error + 'static)) -> Self {
        Self::new(cause, format!("{what}: {}", chain(error)))
    }

    pub(crate) fn into_answer(self) -> Answer {
        Answer::Failed {
            cause: self.cause,
            message: self.message,
        }
    }
}

/// An error and what lies below it. A part that the one above has quoted already is not repeated.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(error) = below {
        let part = error.to_string();
        if !text.contains(&part) {
            text = format!("{text}: {part}");
        }
        below = error.source();
    }
    one_line(&text)
}

/// At most a thousand characters without breaks: stores answer with whole pages of XML.
pub(crate) fn one_line(text: &str) -> String {
    let words = text.split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<&str> = words.filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(1000).collect()
}

/// Shorthand for `map_err` with what could not be done.
pub(crate) trait Explain<T> {
    fn explain(self, cause: Cause, what: impl AsRef<str>) -> Result<T>;
}

impl<T, E: Error + 'static> Explain<T> for std::result::Result<T, E> {
    fn explain(self, cause: Cause, what: impl AsRef<str>) -> Result<T> {
        self.map_err(|error| Fault::of(cause, what.as_ref(), &error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_stores_become_one_line() {
        let text = one_line("<Error>\n  <Code>AccessDenied</Code>\r\n\u{7}</Error>");
        assert_eq!(text, "<Error> <Code>AccessDenied</Code> </Error>");
        assert_eq!(one_line(&"ü".repeat(5000)).chars().count(), 1000);
    }
}
