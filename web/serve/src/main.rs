//! Builds the page and serves it: `cargo run --release` in the folder `web`.
//!
//! `cargo run --release -- build FOLDER` writes the files into a folder instead, for a server of static files.

mod build;
#[cfg(test)]
mod tests;
mod tutorial;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

use axum::Router;
use tokio::net::TcpListener;
use tower_http::services::ServeDir;

/// The default address.
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
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address)
            .await
            .map_err(|error| format!("cannot serve at {address}: {error}"))?;
        println!("serving at http://{}", listener.local_addr()?);
        Ok(axum::serve(listener, files(&folder)).await?)
    })
}

/// Returns a router that serves the files of a folder.
fn files(folder: &Path) -> Router {
    Router::new().fallback_service(ServeDir::new(folder))
}
