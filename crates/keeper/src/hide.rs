//! Stores quote in their errors what they were given: where the two keys of a Secret are swapped, the secret one. What is in
//! the mounted Secrets of the store appears in no answer.

use std::path::Path;

use archive::work::{Answer, Done};

/// Shorter texts are no secrets, and would tear words apart.
const SHORTEST: usize = 6;

/// The answer without the contents of the files of this directory.
pub(crate) fn hide(answer: Answer, secrets: &Path) -> Answer {
    let hidden = |text: String| strike(&text, secrets);
    match answer {
        Answer::Failed { cause, message } => Answer::Failed {
            cause,
            message: hidden(message),
        },
        Answer::Done(Done::Snapshot(mut made)) => {
            made.unpruned = made.unpruned.map(hidden);
            Answer::Done(Done::Snapshot(made))
        }
        Answer::Done(done) => Answer::Done(done),
    }
}

/// A text without them.
pub(crate) fn strike(text: &str, secrets: &Path) -> String {
    let hide = |text: String, secret: &String| text.replace(secret, "[hidden]");
    contents(secrets).iter().fold(text.to_owned(), hide)
}

/// What each file holds. Certificates are public.
fn contents(directory: &Path) -> Vec<String> {
    let files = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let files = files.filter(|file| file.path().is_file() && file.file_name() != "ca.crt");
    let texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
    let texts = texts.map(|text| text.trim_end().to_owned());
    texts.filter(|text| text.len() >= SHORTEST).collect()
}

#[cfg(test)]
mod tests {
    use archive::work::Cause;

    use super::*;

    #[test]
    fn keys_that_a_store_quotes_are_struck_out() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("access-key"), "the-secret-key\n").unwrap();
        std::fs::write(directory.path().join("ca.crt"), "InvalidAccessKeyId").unwrap();
        let failed = Answer::Failed {
            cause: Cause::Store,
            message: "InvalidAccessKeyId: the-secret-key is not known".to_owned(),
        };
        let Answer::Failed { message, .. } = hide(failed, directory.path()) else {
            panic!("another answer");
        };
        assert_eq!(message, "InvalidAccessKeyId: [hidden] is not known");
    }
}
