//! What a failed run leaves behind for a later diagnosis. It never fails itself.

use std::path::Path;
use std::process::Command;

use crate::cluster::{Layout, Target};
use crate::deploy::NAMESPACE;
use crate::tools::output;

/// Writes the state of the cluster to files and says where.
pub(super) fn keep(layout: &Layout, context: Option<&str>) {
    let Ok(target) = Target::resolve(layout, context) else {
        return;
    };
    let directory = layout.cache().join("diagnostics");
    let looks: [(&str, &[&str]); 5] = [
        ("pods.txt", &["get", "pods", "-A", "-o", "wide"]),
        (
            "objects.yaml",
            &[
                "get",
                "etcdclusters,statefulsets,pods,pvc",
                "-A",
                "-o",
                "yaml",
            ],
        ),
        (
            "events.txt",
            &["get", "events", "-A", "--sort-by=.lastTimestamp"],
        ),
        (
            "operator.log",
            &[
                "logs",
                "--namespace",
                NAMESPACE,
                "--prefix",
                "--tail=-1",
                "--selector",
                "app.kubernetes.io/name=etcd-operator",
            ],
        ),
        (
            "operator-previous.log",
            &[
                "logs",
                "--namespace",
                NAMESPACE,
                "--prefix",
                "--previous",
                "--tail=-1",
                "--selector",
                "app.kubernetes.io/name=etcd-operator",
            ],
        ),
    ];
    for (file, look) in looks {
        write(&directory.join(file), target.command("kubectl").args(look));
    }
    eprintln!("what the cluster looked like is in {}", directory.display());
}

fn write(file: &Path, look: &mut Command) {
    let text = output(look).unwrap_or_else(|error| format!("{error:#}\n"));
    let written = file
        .parent()
        .map_or(Ok(()), std::fs::create_dir_all)
        .and_then(|()| std::fs::write(file, text));
    if let Err(error) = written {
        eprintln!("could not write {}: {error}", file.display());
    }
}
