//! Asks one after the other without waiting for those who are slow.

use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;

/// The first answer. The next one is asked as soon as one has refused, or when those who were asked have been silent for
/// a while; so the usual case costs one question, and a silent member costs no more than that while.
pub(super) async fn first<T>(
    questions: Vec<BoxFuture<'_, Option<T>>>,
    patience: Duration,
) -> Option<T> {
    let mut questions = questions.into_iter();
    let mut asked: FuturesUnordered<_> = questions.next().into_iter().collect();
    loop {
        let next = match tokio::time::timeout(patience, asked.next()).await {
            Ok(Some(Some(answer))) => return Some(answer),
            Ok(Some(None)) | Err(_) => questions.next(),
            Ok(None) => return None,
        };
        match next {
            Some(question) => asked.push(question),
            // All were asked: the rest is up to their deadlines.
            None => return asked.filter_map(std::future::ready).next().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use futures::FutureExt;

    use super::*;

    const MILLI: Duration = Duration::from_millis(1);

    /// Each answers, refuses, or is silent for so many milliseconds and then refuses; who answered, and how many were asked.
    async fn ask(members: &[(u32, bool)]) -> (Option<usize>, u32) {
        let asked = AtomicU32::new(0);
        let questions = members.iter().enumerate().map(|(index, (takes, answers))| {
            let asked = &asked;
            let question = async move {
                asked.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(MILLI * *takes).await;
                answers.then_some(index)
            };
            question.boxed()
        });
        let answer = first(questions.collect(), MILLI * 20).await;
        (answer, asked.load(Ordering::Relaxed))
    }

    #[tokio::test]
    async fn one_is_asked_and_the_others_only_if_need_be() {
        assert_eq!(ask(&[(1, true), (1, true)]).await, (Some(0), 1));
        assert_eq!(ask(&[(1, false), (1, true)]).await, (Some(1), 2));
        assert_eq!(ask(&[(1, false), (1, false)]).await, (None, 2));
        assert_eq!(ask(&[]).await, (None, 0));
    }

    #[tokio::test]
    async fn silent_members_are_not_waited_for_one_by_one() {
        // Were each waited for, the last one would be asked after eight hours.
        let silent = [(3_600_000, false); 8];
        let mut members = silent.to_vec();
        members.push((1, true));
        let asked = tokio::time::timeout(MILLI * 60_000, ask(&members)).await;
        assert_eq!(asked.unwrap(), (Some(8), 9));
        assert_eq!(ask(&[(400, false); 8]).await, (None, 8));
    }
}
