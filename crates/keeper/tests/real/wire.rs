//! What stands between a keeper and its store, sees each request and decides about it.

use std::process::Command;
use std::sync::{Arc, Mutex};

use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Barrier;

pub(crate) type Headers = Vec<(String, String)>;

/// The head of a request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    headers: Headers,
}

impl Asked {
    /// It changes something in the store.
    pub(crate) fn writes(&self) -> bool {
        self.method != "GET" && self.method != "HEAD"
    }

    pub(crate) fn has_header(&self, begin: &str) -> bool {
        self.headers.iter().any(|(name, _)| name.starts_with(begin))
    }
}

/// What becomes of a request.
#[derive(Clone)]
pub(crate) enum Verdict {
    Pass,
    /// Rejected in the words of S3.
    Refuse(&'static str, &'static str),
    /// Only when so many have come as the barrier is for.
    Meet(Arc<Barrier>),
    /// The keeper is killed before the store hears of it.
    KillBefore,
    /// The keeper is killed when the store has done it, and hears nothing.
    KillAfter,
}

/// A proxy before a store.
pub(crate) struct Wire {
    pub(crate) port: u16,
    /// The process to kill.
    pub(crate) keeper: Arc<Mutex<Option<u32>>>,
}

impl Wire {
    pub(crate) async fn before(
        store: u16,
        judge: impl Fn(&Asked) -> Verdict + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let keeper: Arc<Mutex<Option<u32>>> = Arc::default();
        let (judge, own) = (Arc::new(judge), Arc::clone(&keeper));
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (judge, keeper) = (Arc::clone(&judge), Arc::clone(&own));
                // A keeper that is gone ends its connection.
                tokio::spawn(async move { drop(serve(client, store, &*judge, &keeper).await) });
            }
        });
        Self { port, keeper }
    }
}

fn kill(keeper: &Mutex<Option<u32>>) {
    let id = keeper.lock().unwrap().unwrap().to_string();
    let told = Command::new("kill").args(["-s", "KILL", &id]).status();
    assert!(told.unwrap().success());
}

async fn serve(
    client: TcpStream,
    store: u16,
    judge: &(dyn Fn(&Asked) -> Verdict + Send + Sync),
    keeper: &Mutex<Option<u32>>,
) -> std::io::Result<()> {
    let mut store = BufReader::new(TcpStream::connect(("127.0.0.1", store)).await?);
    let mut client = BufReader::new(client);
    while let Some((text, first, headers)) = head(&mut client).await? {
        let mut words = first.split_whitespace().map(str::to_owned);
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        let mut request = text.into_bytes();
        body(&mut client, &headers, &mut request).await?;
        let asked = Asked {
            method,
            target,
            headers,
        };
        let verdict = judge(&asked);
        match &verdict {
            Verdict::Pass | Verdict::KillAfter => {}
            Verdict::Refuse(status, code) => {
                let text = format!("<Error><Code>{code}</Code></Error>");
                let length = text.len();
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{text}");
                client.get_mut().write_all(head.as_bytes()).await?;
                continue;
            }
            Verdict::Meet(barrier) => {
                barrier.wait().await;
            }
            Verdict::KillBefore => {
                kill(keeper);
                return Ok(());
            }
        }
        store.get_mut().write_all(&request).await?;
        let Some((text, first, headers)) = head(&mut store).await? else {
            return Ok(());
        };
        let mut answer = text.into_bytes();
        let is_empty = asked.method == "HEAD" || first.contains(" 204 ");
        if !is_empty {
            body(&mut store, &headers, &mut answer).await?;
        }
        if matches!(verdict, Verdict::KillAfter) {
            kill(keeper);
            return Ok(());
        }
        client.get_mut().write_all(&answer).await?;
    }
    Ok(())
}

/// The text of a head, its first line, and its headers with names in lower case.
pub(crate) async fn head(
    from: &mut (impl AsyncBufRead + Unpin),
) -> std::io::Result<Option<(String, String, Headers)>> {
    let (mut text, mut headers, mut first) = (String::new(), Vec::new(), String::new());
    loop {
        let mut line = String::new();
        if from.read_line(&mut line).await? == 0 {
            return Ok(None);
        }
        text.push_str(&line);
        let line = line.trim_end();
        match line.split_once(": ") {
            _ if line.is_empty() => return Ok(Some((text, first, headers))),
            _ if first.is_empty() => line.clone_into(&mut first),
            Some((name, value)) => headers.push((name.to_lowercase(), value.to_owned())),
            None => panic!("{line}"),
        }
    }
}

/// Reads a body behind its head.
pub(crate) async fn body(
    from: &mut (impl AsyncBufRead + Unpin),
    headers: &[(String, String)],
    to: &mut Vec<u8>,
) -> std::io::Result<()> {
    let value = |wanted: &str| {
        let mut headers = headers.iter();
        headers.find_map(|(name, value)| (name == wanted).then_some(value))
    };
    if value("transfer-encoding").is_some() {
        loop {
            let begun = to.len();
            from.read_until(b'\n', to).await?;
            let line = String::from_utf8_lossy(&to[begun..]).trim().to_owned();
            let size = usize::from_str_radix(&line, 16).unwrap();
            let begun = to.len();
            to.resize(begun + size + 2, 0);
            from.read_exact(&mut to[begun..]).await?;
            if size == 0 {
                return Ok(());
            }
        }
    }
    let length = value("content-length").map_or(0, |length| length.parse().unwrap());
    let begun = to.len();
    to.resize(begun + length, 0);
    from.read_exact(&mut to[begun..]).await?;
    Ok(())
}
