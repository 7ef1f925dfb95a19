//! The server over real loopback sockets.

use super::*;

pub(super) fn answers() -> Arc<Answers> {
    let report = Report {
        protocol: gate::PROTOCOL,
        state: gate::State::Empty,
        nonce: "n".into(),
        pod_uid: "p".into(),
        detail: "d".into(),
        data: None,
        failed: None,
        received_bytes: None,
    };
    Arc::new(Answers::new(&report).unwrap())
}

fn ask(server: &Server, request: &str) -> String {
    let mut client = connect(server);
    client.write_all(request.as_bytes()).unwrap();
    server.serve(&answers());
    let mut response = String::new();
    client.read_to_string(&mut response).unwrap();
    response
}

fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(("127.0.0.1", server.address().unwrap().port())).unwrap()
}

#[test]
fn every_path_of_the_contract() {
    let server = Server::bind("[::]:0".parse().unwrap(), Door::Plain).unwrap();
    for (request, status, body) in [
        ("GET /livez HTTP/1.1", "200", "ok\n"),
        (
            "GET /readyz HTTP/1.1",
            "503",
            "waiting at the gate: Empty\n",
        ),
        (
            "GET /readyz?verbose HTTP/1.1",
            "503",
            "waiting at the gate: Empty\n",
        ),
        ("HEAD /livez HTTP/1.1", "200", ""),
        ("GET / HTTP/1.1", "404", "not found\n"),
        ("GET /health HTTP/1.1", "404", "not found\n"),
        (
            "GET /health?serializable=true&exclude=NOSPACE HTTP/1.1",
            "200",
            "{\"health\":\"true\"}\n",
        ),
        ("POST /gate HTTP/1.1", "405", "only GET and HEAD\n"),
        ("nonsense", "400", "not HTTP\n"),
    ] {
        let response = ask(&server, &format!("{request}\r\nHost: x\r\n\r\n"));
        assert!(
            response.starts_with(&format!("HTTP/1.1 {status} ")),
            "{request}: {response}"
        );
        assert!(
            response.ends_with(&format!("\r\n\r\n{body}")),
            "{request}: {response}"
        );
        assert!(
            response.contains("Connection: close\r\n"),
            "{request}: {response}"
        );
    }
    let response = ask(&server, "GET /gate HTTP/1.1\r\n\r\n");
    let body = response.split_once("\r\n\r\n").unwrap().1;
    assert_eq!(
        body,
        r#"{"protocol":1,"state":"Empty","nonce":"n","podUID":"p","detail":"d"}"#
    );
}

#[test]
fn a_port_for_probes_tells_no_report() {
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), Door::Probes).unwrap();
    for (path, status) in [
        ("/gate", "404"),
        ("/livez", "200"),
        ("/readyz", "503"),
        ("/health?serializable=true", "200"),
    ] {
        let response = ask(&server, &format!("GET {path} HTTP/1.1\r\n\r\n"));
        let expected = format!("HTTP/1.1 {status} ");
        assert!(response.starts_with(&expected), "{path}: {response}");
    }
}

#[test]
fn silent_clients_hold_up_no_other_and_are_bounded() {
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), Door::Plain).unwrap();
    let silent: Vec<_> = (0..MOST_CONNECTIONS - 1)
        .map(|_| {
            let client = connect(&server);
            server.serve(&answers());
            client
        })
        .collect();
    assert!(ask(&server, "GET /livez HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 200"));
    drop(silent);
}

/// A connection that comes from another machine.
pub(super) fn connect_from(source: [u8; 4], server: &Server) -> TcpStream {
    let client = connect(server);
    let accepted = loop {
        if let Ok((stream, _)) = server.listener.accept() {
            break stream;
        }
    };
    server.answer(accepted, source.into(), &answers());
    client
}

#[test]
fn a_flood_from_one_address_shuts_out_itself_alone() {
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), Door::Plain).unwrap();
    let mut kubelet = connect_from([10, 0, 0, 2], &server);
    // They come before the kubelet has said what it wants, and after.
    let flood: Vec<_> = (0..MOST_CONNECTIONS * 3)
        .map(|_| connect_from([10, 0, 0, 1], &server))
        .collect();
    kubelet.write_all(b"GET /livez HTTP/1.1\r\n\r\n").unwrap();
    let mut response = String::new();
    kubelet.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    let mut operator = connect_from([10, 0, 0, 3], &server);
    operator.write_all(b"GET /gate HTTP/1.1\r\n\r\n").unwrap();
    response.clear();
    operator.read_to_string(&mut response).unwrap();
    assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    assert!(server.open.borrow().len() <= MOST_CONNECTIONS);
    drop(flood);
}

#[test]
fn the_port_is_free_as_soon_as_the_server_is_dropped() {
    let server = Server::bind("[::]:0".parse().unwrap(), Door::Plain).unwrap();
    let address = server.address().unwrap();
    let half_open = connect(&server);
    ask(&server, "GET /livez HTTP/1.1\r\n\r\n");
    drop(server);
    TcpListener::bind(address).unwrap();
    drop(half_open);
}

#[test]
fn endless_requests_are_cut_off() {
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), Door::Plain).unwrap();
    let response = {
        let mut client = connect(&server);
        client.write_all(&vec![b'a'; LONGEST_REQUEST * 2]).unwrap();
        server.serve(&answers());
        let mut response = Vec::new();
        // Closed without an answer, or reset.
        drop(client.read_to_end(&mut response));
        response
    };
    assert!(response.is_empty());
}
