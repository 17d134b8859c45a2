//! Requests that must neither stop the server nor make other visitors wait.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;
use std::{fs, thread};

use tokio::net::TcpListener;

use crate::files;

/// More than the buffers of a connection hold, so that a reader that stops keeps the server writing.
const LARGE: usize = 64 << 20;

/// Serves a folder in a thread of its own, and returns the address.
fn serve(folder: &Path) -> SocketAddr {
    let service = files(folder);
    let (sender, receiver) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            sender.send(listener.local_addr().unwrap()).unwrap();
            axum::serve(listener, service).await.unwrap();
        });
    });
    receiver.recv().unwrap()
}

fn connect(address: SocketAddr, request: &str) -> TcpStream {
    let mut connection = TcpStream::connect(address).unwrap();
    connection
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    connection.write_all(request.as_bytes()).unwrap();
    connection
}

fn get(address: SocketAddr, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    let mut answer = Vec::new();
    connect(address, &request).read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

#[test]
fn hostile_requests_leave_the_server_running() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("index.html"), "<p>hello").unwrap();
    fs::write(folder.path().join("page.wasm"), vec![0; LARGE]).unwrap();
    fs::create_dir(folder.path().join("folder.js")).unwrap();
    let address = serve(folder.path());

    // A reader that takes nothing of a large file.
    let slow = connect(address, "GET /page.wasm HTTP/1.1\r\nHost: x\r\n\r\n");
    // Lengths of bodies that no memory holds, and that do not follow.
    let lengths = [
        "18446744073709551615",
        "20000000000",
        "-1",
        "99999999999999999999999",
    ];
    let waiting = lengths.map(|length| {
        let request = format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n");
        connect(address, &request)
    });
    connect(address, "\0\0\0\r\n\r\n");
    let long = "a".repeat(1 << 20);
    drop(
        TcpStream::connect(address)
            .unwrap()
            .write_all(long.as_bytes()),
    );

    // What cannot be read, and what is outside of the folder.
    for path in [
        "/missing",
        "/folder.js",
        "/../Cargo.toml",
        "/%2e%2e/Cargo.toml",
        "/%00",
    ] {
        let answer = get(address, path);
        let status: u16 = answer[9..12].parse().unwrap();
        assert!((300..500).contains(&status), "{path}: {answer}");
    }
    let answer = get(address, "/");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert!(
        answer.contains("content-type: text/html") && answer.ends_with("<p>hello"),
        "{answer}"
    );
    let wasm = get(address, "/page.wasm");
    assert!(wasm[..200].contains("content-type: application/wasm"));
    drop((slow, waiting));
}
