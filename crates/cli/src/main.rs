//! `kubectl-etcd`: see `kubectl etcd help`.

use std::process::ExitCode;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    ExitCode::from(cli::run::main(std::env::args_os()).await)
}
