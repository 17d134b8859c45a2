//! Builds the page and serves it: `cargo run --release` in the folder `web`.
//!
//! `cargo run --release -- build FOLDER` writes the files into a folder instead, for a server of static files.

mod build;
mod tutorial;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tiny_http::{Header, Response, Server};

/// Where the page is served, unless another address is given.
const ADDRESS: &str = "127.0.0.1:8000";
const HELP: &str =
    "usage: serve [ADDRESS]         builds the page and serves it, at 127.0.0.1:8000 by default
       serve build FOLDER     writes the files of the page into a folder";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        [] => run(ADDRESS),
        ["build", folder] => build::build(Path::new(folder)),
        [address] if address.contains(':') => run(address),
        _ => Err(HELP.into()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("error: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn run(address: &str) -> Result<(), Box<dyn Error>> {
    let folder = build::target().join("page");
    build::build(&folder)?;
    let server =
        Server::http(address).map_err(|error| format!("cannot serve at {address}: {error}"))?;
    println!("serving at http://{}", server.server_addr());
    for request in server.incoming_requests() {
        let answered = match file(&folder, request.url()) {
            Some(path) => request.respond(response(&path)?),
            None => request.respond(Response::from_string("not found").with_status_code(404)),
        };
        // Who asked may have gone.
        drop(answered);
    }
    Ok(())
}

/// Returns the file at an address. Only files directly in the folder are served.
fn file(folder: &Path, url: &str) -> Option<PathBuf> {
    let name = match url.split(['?', '#']).next()?.strip_prefix('/')? {
        "" => "index.html",
        name => name,
    };
    let is_plain = !name.starts_with('.') && !name.contains(['/', '\\']);
    Some(folder.join(name)).filter(|path| is_plain && path.is_file())
}

fn response(path: &Path) -> Result<Response<std::io::Cursor<Vec<u8>>>, Box<dyn Error>> {
    let kind = match path.extension().and_then(|extension| extension.to_str()) {
        Some("html") => "text/html; charset=utf-8",
        Some("css") => "text/css",
        Some("js") => "text/javascript",
        Some("wasm") => "application/wasm",
        _ => "application/octet-stream",
    };
    let header =
        Header::from_bytes("Content-Type", kind).map_err(|()| "the header is not valid")?;
    Ok(Response::from_data(fs::read(path)?).with_header(header))
}
