//! The little HTTP server of a waiting gate. One answer per connection, a thread for each, bounded in
//! number, size and time, so that no client can hold the gate up. It knows nothing of grants. TLS is put around a
//! connection in `serve/secure.rs`.

mod secure;

use std::{
    cell::RefCell,
    collections::BTreeMap,
    io::{self, Read, Write},
    net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Weak},
    thread,
    time::{Duration, Instant},
};

use gate::{REPORT_PATH, Report};

pub(crate) use self::secure::Files;

/// Connections answered at the same time. For one more, the oldest of the address that has the most is closed.
const MOST_CONNECTIONS: usize = 32;
/// How long one connection may take, all in all, the handshake of TLS included.
const PATIENCE: Duration = Duration::from_secs(2);
/// The stack of each thread; what is never touched costs nothing. Chains of certificates need some of it.
const STACK: usize = 512 << 10;
/// The longest request that is read.
const LONGEST_REQUEST: usize = 8 << 10;

/// What a port is for.
#[derive(Clone, Debug)]
pub(crate) enum Door {
    /// Probes and the report.
    Plain,
    /// Probes alone.
    Probes,
    /// All of it, for callers with a certificate.
    Secure(Arc<Files>),
}

/// The ports of a waiting gate. Each has its own bounds: what happens on one does not shut out the callers of the other.
#[derive(Debug)]
pub(crate) struct Servers {
    /// Without certificates.
    pub(crate) plain: Server,
    /// With certificates on both sides.
    pub(crate) secure: Option<Server>,
}

impl Servers {
    /// Answers every client that has come since the last call; never blocks.
    pub(crate) fn serve(&self, answers: &Arc<Answers>) {
        for server in self.all() {
            server.serve(answers);
        }
    }

    /// Where they listen, for people.
    pub(crate) fn addresses(&self) -> Vec<String> {
        let address = |server: &Server| {
            let found = server.address();
            found.map_or_else(|error| error.to_string(), |found| found.to_string())
        };
        self.all().map(address).collect()
    }

    fn all(&self) -> impl Iterator<Item = &Server> {
        std::iter::once(&self.plain).chain(&self.secure)
    }
}

/// The listener; dropping it frees the port at once. Connections that are still being answered do not
/// hold it: Rust and Go both bind with `SO_REUSEADDR`.
#[derive(Debug)]
pub(crate) struct Server {
    listener: TcpListener,
    door: Door,
    /// Oldest first.
    open: RefCell<Vec<Open>>,
}

/// A connection that is being answered.
#[derive(Debug)]
struct Open {
    /// The thread that answers holds on to it, and drops it at its end.
    stream: Weak<TcpStream>,
    source: IpAddr,
}

/// What to answer, rendered once per change.
#[derive(Debug)]
pub(crate) struct Answers {
    report: String,
    state: String,
}

impl Answers {
    /// Renders a report.
    pub(crate) fn new(report: &Report) -> serde_json::Result<Self> {
        let state = format!("waiting at the gate: {:?}\n", report.state);
        Ok(Self {
            report: serde_json::to_string(report)?,
            state,
        })
    }
}

impl Server {
    /// Binds; where IPv6 is switched off, any-address falls back to IPv4.
    pub(crate) fn bind(address: SocketAddr, door: Door) -> io::Result<Self> {
        let listener = TcpListener::bind(address).or_else(|error| {
            let is_any = address.is_ipv6() && address.ip().is_unspecified();
            if is_any && error.kind() != io::ErrorKind::AddrInUse {
                TcpListener::bind((Ipv4Addr::UNSPECIFIED, address.port()))
            } else {
                Err(error)
            }
        })?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            door,
            open: RefCell::default(),
        })
    }

    /// Where it listens.
    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers every client that has come since the last call; never blocks.
    pub(crate) fn serve(&self, answers: &Arc<Answers>) {
        // Any other error concerns one connection or passes (too many open files): look again later.
        while let Ok((stream, address)) = self.listener.accept() {
            self.answer(stream, address.ip().to_canonical(), answers);
        }
    }

    fn answer(&self, stream: TcpStream, source: IpAddr, answers: &Arc<Answers>) {
        let stream = Arc::new(stream);
        self.admit(Open {
            stream: Arc::downgrade(&stream),
            source,
        });
        let (door, answers) = (self.door.clone(), Arc::clone(answers));
        // A client that went away needs no answer.
        let answer = move || drop(respond(&stream, &door, &answers));
        // Without a thread the connection is closed, and the client asks again.
        drop(thread::Builder::new().stack_size(STACK).spawn(answer));
    }

    /// Makes room for one more.
    ///
    /// Invariant: an address that opens connections and says nothing shuts out itself, not the kubelet, whose probes
    /// keep the container alive, nor the operator (`a_flood_from_one_address_shuts_out_itself_alone`).
    fn admit(&self, new: Open) {
        let mut open = self.open.borrow_mut();
        open.retain(|open| open.stream.strong_count() > 0);
        open.push(new);
        while open.len() > MOST_CONNECTIONS {
            let Some(oldest) = most_greedy(&open) else {
                return;
            };
            let closed = open.remove(oldest).stream.upgrade();
            // Its thread sees the end of the stream, and ends. One that is closed already has ended.
            if let Some(stream) = closed {
                drop(stream.shutdown(Shutdown::Both));
            }
        }
    }
}

/// Place of the oldest connection of the address that has the most of them.
fn most_greedy(open: &[Open]) -> Option<usize> {
    let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
    for connection in open {
        let count = counts.entry(connection.source).or_default();
        *count = count.saturating_add(1);
    }
    let most = counts.values().max();
    let is_greedy = |connection: &Open| counts.get(&connection.source) == most;
    open.iter().position(is_greedy)
}

fn respond(stream: &TcpStream, door: &Door, answers: &Answers) -> io::Result<()> {
    let mut timed = Timed {
        stream,
        until: Instant::now() + PATIENCE,
    };
    match door {
        Door::Plain => converse(&mut timed, Some(&answers.report), answers)?,
        Door::Probes => converse(&mut timed, None, answers)?,
        Door::Secure(files) => files.converse(timed, answers)?,
    }
    stream.shutdown(Shutdown::Write)
}

/// A connection that has to be over at some time, however little its other end sends or takes.
#[derive(Clone, Copy, Debug)]
struct Timed<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

impl Timed<'_> {
    fn left(&self) -> io::Result<Duration> {
        match self.until.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Err(io::ErrorKind::TimedOut.into()),
            left => Ok(left),
        }
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(buffer)
    }
}

impl Write for Timed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

/// Reads one request and answers it. `report` is what to tell of the wait.
fn converse(
    stream: &mut (impl Read + Write),
    report: Option<&String>,
    answers: &Answers,
) -> io::Result<()> {
    let request = read_request(stream)?;
    let (status, kind, body) = route(&request, report, answers);
    let length = body.len();
    let is_head = request.starts_with("HEAD ");
    let body = if is_head { "" } else { body };
    let response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    );
    stream.write_all(response.as_bytes())?;
    stream.flush()
}

/// Status, content type and body for a request.
fn route<'a>(
    request: &str,
    report: Option<&'a String>,
    answers: &'a Answers,
) -> (&'static str, &'static str, &'a str) {
    const TEXT: &str = "text/plain; charset=utf-8";
    let mut words = request.lines().next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(_), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return ("400 Bad Request", TEXT, "not HTTP\n");
    };
    if method != "GET" && method != "HEAD" {
        return ("405 Method Not Allowed", TEXT, "only GET and HEAD\n");
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    match (path, report) {
        ("/livez", _) => ("200 OK", TEXT, "ok\n"),
        // What a release of etcd without `/livez` is asked instead.
        ("/health", _) if query.contains("serializable=true") => {
            ("200 OK", "application/json", "{\"health\":\"true\"}\n")
        }
        ("/readyz", _) => ("503 Service Unavailable", TEXT, &answers.state),
        (REPORT_PATH, Some(report)) => ("200 OK", "application/json", report),
        _ => ("404 Not Found", TEXT, "not found\n"),
    }
}

/// Reads up to the empty line that ends a request without a body.
fn read_request(stream: &mut impl Read) -> io::Result<String> {
    let mut request = Vec::new();
    let mut chunk = [0; 1024];
    while !request.windows(4).any(|window| window == b"\r\n\r\n") {
        if request.len() > LONGEST_REQUEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let read = stream.read(&mut chunk)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        request.extend_from_slice(chunk.get(..read).unwrap_or_default());
    }
    Ok(String::from_utf8_lossy(&request).into_owned())
}

#[cfg(test)]
mod tests;
