//! `etcd-operator`: see `etcd-operator --help`.

use clap::Parser;
use operator::args::{Args, Command};

// The operator waits on the network; one thread is enough for thousands of clusters, and keeps one heap.
#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    match Args::parse().command {
        Command::Run(options) => operator::run::run(*options).await,
        Command::Check(options) => operator::check::check(options).await,
        Command::Crd => operator::run::print_crd(),
    }
}
