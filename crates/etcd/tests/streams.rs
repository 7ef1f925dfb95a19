//! What the far end may do to a stream: refuse it, never answer, answer nonsense, speak for the
//! gate. No etcd is needed here.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::io;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use etcd::{
    BoxFuture, BoxStream, Cause, Connect, DirectTcp, GateAnswer, Pool, Security, Target,
    gate_report,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::TcpListener;

const SHORT: Duration = Duration::from_millis(200);

fn target(pod: &str, address: &str) -> Target {
    Target {
        namespace: "ns".into(),
        pod: pod.into(),
        address: address.into(),
    }
}

/// A connector whose far end does what `serve` does, and which counts its connections.
struct Scripted<F> {
    serve: F,
    opened: AtomicUsize,
}

fn scripted<F: Fn(DuplexStream) -> BoxFuture<'static, ()>>(serve: F) -> Arc<Scripted<F>> {
    Arc::new(Scripted {
        serve,
        opened: AtomicUsize::new(0),
    })
}

impl<F> Connect for Scripted<F>
where
    F: Fn(DuplexStream) -> BoxFuture<'static, ()> + Send + Sync + 'static,
{
    fn connect<'a>(&'a self, _: &'a Target, _: u16) -> BoxFuture<'a, io::Result<BoxStream>> {
        let (near, far) = tokio::io::duplex(64 * 1024);
        self.opened.fetch_add(1, Ordering::Relaxed);
        tokio::spawn((self.serve)(far));
        let near: BoxStream = Box::new(near);
        Box::pin(async move { Ok(near) })
    }
}

/// Accepts, holds the stream open, and never says a word.
fn silent(stream: DuplexStream) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        std::future::pending::<()>().await;
        drop(stream);
    })
}

/// A connector that never comes back.
struct Hanging;

impl Connect for Hanging {
    fn connect<'a>(&'a self, _: &'a Target, _: u16) -> BoxFuture<'a, io::Result<BoxStream>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_member_that_never_answers_costs_one_deadline_and_its_connection() {
    let connect = scripted(silent);
    let pool = Pool::new(Arc::<Scripted<_>>::clone(&connect));
    let member = pool
        .member(&target("c-0", "192.0.2.1"), &Security::Plain)
        .with_deadline(SHORT);
    for opened in 1..=2 {
        let began = Instant::now();
        let error = member.put(b"key", b"value").await.unwrap_err();
        assert!(
            matches!(error.cause, Cause::Deadline { after } if after == SHORT),
            "{error:?}"
        );
        assert!(error.outcome_is_unknown());
        assert_eq!(error.to_string(), "put of ns/c-0 failed");
        assert!(began.elapsed() < SHORT * 5);
        // The silent connection is not used again.
        assert_eq!(connect.opened.load(Ordering::Relaxed), opened);
    }
}

#[tokio::test]
async fn calls_made_together_share_one_connection() {
    let connect = scripted(silent);
    let pool = Pool::new(Arc::<Scripted<_>>::clone(&connect));
    let target = target("c-0", "192.0.2.1");
    let (one, two) = (
        pool.member(&target, &Security::Plain),
        pool.member(&target, &Security::Plain),
    );
    let (one, two) = (one.with_deadline(SHORT), two.with_deadline(SHORT));
    let (first, second) = tokio::join!(one.status(), two.status());
    assert!(first.is_err() && second.is_err());
    assert_eq!(connect.opened.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_connect_that_hangs_is_cut_by_the_deadline_and_nothing_was_sent() {
    let target = target("c-0", "192.0.2.1");
    let pool = Pool::new(Arc::new(Hanging));
    let member = pool.member(&target, &Security::Plain).with_deadline(SHORT);
    let call = member.member_remove(1).await.unwrap_err();
    let report = gate_report(&Hanging, &target, &Security::Plain, SHORT)
        .await
        .unwrap_err();
    for error in [call, report] {
        assert!(!error.outcome_is_unknown());
        let Cause::Connect { source } = error.cause else {
            panic!("{error:?}")
        };
        assert_eq!(source.kind(), io::ErrorKind::TimedOut);
    }
}

#[tokio::test]
async fn a_stream_that_breaks_leaves_the_outcome_unknown_and_the_pool_usable() {
    let connect = scripted(|mut stream| {
        Box::pin(async move {
            stream.read_u8().await.unwrap();
        })
    });
    let pool = Pool::new(Arc::<Scripted<_>>::clone(&connect));
    let member = pool.member(&target("c-0", "192.0.2.1"), &Security::Plain);
    for opened in 1..=3 {
        let error = member.member_remove(1).await.unwrap_err();
        assert!(
            matches!(error.cause, Cause::Unavailable { .. }),
            "{error:?}"
        );
        assert_eq!(connect.opened.load(Ordering::Relaxed), opened);
    }
}

#[tokio::test]
async fn a_connection_given_up_is_closed_although_the_far_end_stays_silent() {
    let (closed, mut closings) = tokio::sync::mpsc::unbounded_channel();
    let connect = scripted(move |mut stream| {
        let closed = closed.clone();
        Box::pin(async move {
            let end = stream.read_to_end(&mut Vec::new()).await;
            closed.send(end.is_ok()).unwrap();
        })
    });
    let pool = Pool::new(connect);
    let member = pool
        .member(&target("c-0", "192.0.2.1"), &Security::Plain)
        .with_deadline(SHORT);
    assert!(member.status().await.is_err());
    let closing = tokio::time::timeout(Duration::from_secs(2), closings.recv()).await;
    assert_eq!(closing.unwrap(), Some(true));
}

#[tokio::test]
async fn the_pool_keeps_one_connection_per_pod_and_forgets_on_request() {
    let pool = Pool::new(Arc::new(DirectTcp));
    pool.member(&target("c-0", "192.0.2.1"), &Security::Plain);
    pool.member(&target("c-1", "192.0.2.2"), &Security::Plain);
    let moved = pool.member(&target("c-0", "192.0.2.3"), &Security::Plain);
    assert_eq!(
        (pool.len(), moved.target().address.as_str()),
        (2, "192.0.2.3")
    );
    pool.retain(|target| target.pod == "c-1");
    assert_eq!(pool.len(), 1);
    pool.retain(|_| false);
    assert!(pool.is_empty());
}

#[tokio::test]
async fn direct_tcp_reaches_both_families_and_takes_no_names() {
    let four = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let six = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).await;
    for listener in [Ok(four), six].into_iter().flatten() {
        let address = listener.local_addr().unwrap();
        let target = target("c-0", &address.ip().to_string());
        let (near, far) = tokio::join!(
            DirectTcp.connect(&target, address.port()),
            listener.accept()
        );
        near.unwrap().write_all(b"x").await.unwrap();
        assert_eq!(far.unwrap().0.read_u8().await.unwrap(), b'x');
    }
    let named = target("c-0", "localhost");
    let error = DirectTcp.connect(&named, 1).await.err().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
}

/// Asks a gate that answers with `answer`, whatever it is asked, and closes.
async fn ask(answer: String) -> Result<GateAnswer, Cause> {
    let connect = scripted(move |mut stream: DuplexStream| {
        let answer = answer.clone();
        Box::pin(async move {
            let mut request = vec![0; 1024];
            let read = stream.read(&mut request).await.unwrap();
            assert!(
                request
                    .get(..read)
                    .unwrap()
                    .starts_with(b"GET /gate HTTP/1.1\r\n")
            );
            let (head, tail) = answer.split_at(answer.len() / 2);
            stream.write_all(head.as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
            stream.write_all(tail.as_bytes()).await.unwrap();
        })
    });
    let answer = gate_report(
        &*connect,
        &target("c-0", "192.0.2.1"),
        &Security::Plain,
        Duration::from_secs(2),
    )
    .await;
    answer.map_err(|error| error.cause)
}

fn http(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

const REPORT: &str =
    r#"{"protocol":1,"state":"Empty","nonce":"0f","podUID":"u-1","detail":"no data"}"#;

#[tokio::test]
async fn the_report_of_a_waiting_gate_is_read() {
    let expected = gate::Report {
        protocol: 1,
        state: gate::State::Empty,
        nonce: "0f".into(),
        pod_uid: "u-1".into(),
        detail: "no data".into(),
        data: None,
        failed: None,
        received_bytes: None,
    };
    let without_length = format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{REPORT}");
    for answer in [http("200 OK", REPORT), without_length] {
        assert_eq!(
            ask(answer).await.unwrap(),
            GateAnswer::Waiting(expected.clone())
        );
    }
}

#[tokio::test]
async fn not_found_means_that_etcd_answers() {
    let answer = ask(http("404 Not Found", "404 page not found\n")).await;
    assert_eq!(answer.unwrap(), GateAnswer::Running);
}

#[tokio::test]
async fn anything_else_on_the_port_of_the_gate_is_an_error() {
    let newer = REPORT.replace(r#""protocol":1"#, r#""protocol":2"#);
    let stranger = REPORT.replace("Empty", "Sleepy");
    let endless = " ".repeat(70_000);
    for answer in [
        http("500 Internal Server Error", ""),
        http("200 OK", "hello"),
        http("200 OK", &newer),
        http("200 OK", &stranger),
        http("200 OK", &endless),
    ] {
        let cause = ask(answer).await.unwrap_err();
        assert!(matches!(cause, Cause::BadAnswer { .. }), "{cause:?}");
    }
    for broken in [
        "",
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{",
    ] {
        assert!(ask(broken.to_owned()).await.is_err());
    }
    let silent = gate_report(
        &*scripted(silent),
        &target("c-0", "192.0.2.1"),
        &Security::Plain,
        SHORT,
    )
    .await;
    assert!(matches!(silent.unwrap_err().cause, Cause::Deadline { .. }));
}
