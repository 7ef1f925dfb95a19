//! Waits until the mounted Secret has the authorities that this pod was made for. etcd reads them once, when it starts, and
//! the kubelet may bring a Secret as it was a moment ago: the operator counts on what the pod's template says.

use std::{
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    Result,
    outcome::{Exit, Fault},
    telemetry::{Level, log},
};

/// How often the file is read.
const TICK: Duration = Duration::from_millis(200);
/// A kubelet brings a changed Secret within a minute and a half. A container that ends is started again, and waits again.
const PATIENCE: Duration = Duration::from_mins(2);

/// What the mounted Secret must have reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trust {
    /// The file with the generation of the authorities beside it.
    pub(crate) file: PathBuf,
    /// The least generation.
    pub(crate) generation: u64,
}

impl Trust {
    /// The generation that is mounted.
    fn mounted(&self) -> Option<u64> {
        fs::read_to_string(&self.file).ok()?.trim().parse().ok()
    }

    /// Returns once it is there, or a stop is asked for.
    pub(crate) fn wait(&self, is_asked_to_stop: &dyn Fn() -> bool) -> Result<()> {
        let begin = Instant::now();
        let mut told = false;
        while !is_asked_to_stop() {
            let mounted = self.mounted();
            if mounted.is_some_and(|mounted| mounted >= self.generation) {
                return Ok(());
            }
            if !told {
                let fields = json!({"mounted": mounted, "needed": self.generation});
                let message = "waiting for newer certificate authorities to be mounted";
                log(Level::Info, message, &fields);
                told = true;
            }
            if begin.elapsed() >= PATIENCE {
                return Err(Fault {
                    exit: Exit::Machine,
                    message: format!(
                        "the certificate authorities in {} are older than this pod was created for: generation {} is needed",
                        self.file.display(),
                        self.generation
                    ),
                });
            }
            thread::sleep(TICK);
        }
        Ok(())
    }
}
