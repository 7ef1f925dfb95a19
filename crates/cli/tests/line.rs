//! The program as it is run: what goes to stdout and to stderr, and with which code it ends.

use std::error::Error;
use std::net::TcpListener;
use std::process::Command;

fn run(arguments: &[&str]) -> Result<(i32, String, String), Box<dyn Error>> {
    let mut program = Command::new(env!("CARGO_BIN_EXE_kubectl-etcd"));
    let said = program.args(arguments).output()?;
    let code = said.status.code().ok_or("it was killed")?;
    let stdout = String::from_utf8(said.stdout)?;
    Ok((code, stdout, String::from_utf8(said.stderr)?))
}

#[test]
fn a_line_that_makes_no_sense_is_an_error_and_not_a_cluster_that_is_not_well() {
    for line in [
        &["nonsense"][..],
        &["scale", "db"],
        &["status", "-A", "db"],
        &["restart"],
    ] {
        let (code, stdout, stderr) = run(line).unwrap();
        assert_eq!((code, stdout.as_str()), (1, ""), "{line:?}");
        assert!(stderr.contains("Usage: kubectl etcd"), "{stderr}");
    }
}

#[test]
fn help_and_completion_are_data() {
    let (code, stdout, stderr) = run(&["help"]).unwrap();
    assert_eq!((code, stderr.as_str()), (0, ""));
    assert!(
        stdout.contains("Exit codes: 0") && !stdout.contains("__complete"),
        "{stdout}"
    );
    let (code, stdout, _) = run(&["completion", "kubectl"]).unwrap();
    assert!(code == 0 && stdout.starts_with("#!/bin/sh\n"), "{stdout}");
    let (code, stdout, _) = run(&["__complete", "--", "doc"]).unwrap();
    assert!(
        code == 0 && stdout.starts_with("doctor\t") && stdout.ends_with(":4\n"),
        "{stdout}"
    );
}

#[test]
fn what_cannot_be_reached_is_named_with_what_was_tried() {
    let (code, stdout, stderr) = run(&["status", "--kubeconfig", "/nowhere/config"]).unwrap();
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(
        stderr.starts_with("error: no usable kubeconfig: ") && stderr.contains("\nhint: "),
        "{stderr}"
    );
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let config = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{{name: c, cluster: {{server: \"{server}\"}}}}]\nusers: [{{name: u, user: {{token: never-printed}}}}]\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
    );
    let directory = env!("CARGO_TARGET_TMPDIR");
    let file = format!("{directory}/kubeconfig");
    std::fs::write(&file, config).unwrap();
    let (code, stdout, stderr) = run(&["health", "--kubeconfig", &file]).unwrap();
    assert_eq!((code, stdout.as_str()), (1, ""));
    assert!(
        stderr.starts_with("error: cannot list etcdclusters.etcd.etcd.io: "),
        "{stderr}"
    );
    assert!(
        !stderr.contains("never-printed") && !stderr.contains('\u{1b}'),
        "{stderr}"
    );
}
