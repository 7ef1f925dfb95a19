//! What can go wrong for the user: what was tried, on which object, and what to do. The exit code follows from it.

use commands::{ERROR, REJECTED, TIMED_OUT};
use kube::core::Status;

/// What went wrong.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// No cluster can be spoken to.
    #[error("no usable kubeconfig: {0}")]
    NoConfig(String),
    /// The API server could not be asked.
    #[error("cannot {tried}: {why}")]
    Unreachable {
        /// What was tried.
        tried: String,
        /// What came of it.
        why: String,
    },
    /// A right is missing.
    #[error("not allowed to {verb} {resource}{}", .place.tell())]
    Forbidden {
        /// Which verb.
        verb: &'static str,
        /// On what.
        resource: String,
        /// Where.
        place: Where,
    },
    /// There is no such object.
    #[error("there is no {kind} {name} in namespace {namespace}")]
    Absent {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// Its namespace.
        namespace: String,
        /// Names that are there and look alike, with their namespaces.
        near: Vec<String>,
    },
    /// The API server does not serve a kind.
    #[error(
        "this Kubernetes has no {0}: the operator's CRDs are not installed, or are those of a release before it"
    )]
    NoKind(&'static str),
    /// An object is not what this release knows.
    #[error("{object} cannot be read: {why}; this is kubectl etcd {ours}, and the CRDs are {crd}")]
    Unreadable {
        /// Which.
        object: String,
        /// What is the matter with it.
        why: String,
        /// Version of this program.
        ours: &'static str,
        /// Version of the CRDs, in words.
        crd: String,
    },
    /// Admission said no.
    #[error("{object} was not changed: {sentence}")]
    Rejected {
        /// Which object.
        object: String,
        /// In admission's own words.
        sentence: String,
    },
    /// What cannot be taken back needs the name twice.
    #[error("{sentence}")]
    Unconfirmed {
        /// What there is to know before.
        evidence: String,
        /// What was not done.
        sentence: String,
        /// What to type.
        command: String,
    },
    /// It did not come in time.
    #[error("{what} within {seconds} s; {now}")]
    Late {
        /// What did not come.
        what: String,
        /// How long it was waited for.
        seconds: u64,
        /// How it stands.
        now: String,
    },
    /// The line does not say enough, or too much.
    #[error("{0}")]
    Usage(String, Option<String>),
    /// The result could not be written.
    #[error("the result cannot be written: {0}")]
    Output(#[source] std::io::Error),
}

/// Where a right is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Where {
    /// In one namespace.
    Namespace(String),
    /// In all of them.
    Everywhere,
    /// The kind belongs to no namespace.
    Cluster,
}

impl Where {
    fn tell(&self) -> String {
        match self {
            Self::Namespace(namespace) => format!(" in namespace {namespace}"),
            Self::Everywhere => " in all namespaces".to_owned(),
            Self::Cluster => String::new(),
        }
    }
}

/// What is asked of the API server.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The verb of the right that it takes.
    pub verb: &'static str,
    /// The resource, with its group.
    pub resource: &'static str,
    /// Name of the object, where it is one.
    pub name: Option<String>,
    /// Where it is.
    pub place: Where,
}

impl Asked {
    /// A list.
    pub fn list(resource: &'static str, namespace: Option<&str>) -> Self {
        Self {
            verb: "list",
            resource,
            name: None,
            place: namespace.map_or(Where::Everywhere, |it| Where::Namespace(it.to_owned())),
        }
    }

    /// One object.
    pub fn one(verb: &'static str, resource: &'static str, namespace: &str, name: &str) -> Self {
        Self {
            verb,
            resource,
            name: Some(name.to_owned()),
            place: Where::Namespace(namespace.to_owned()),
        }
    }

    /// Something that belongs to no namespace.
    pub fn global(verb: &'static str, resource: &'static str, name: Option<&str>) -> Self {
        Self {
            verb,
            resource,
            name: name.map(str::to_owned),
            place: Where::Cluster,
        }
    }

    /// What the API server's answer means for it.
    pub fn failed(&self, error: kube::Error) -> Trouble {
        let tried = self.name.as_ref().map_or_else(
            || format!("{} {}", self.verb, self.resource),
            |name| format!("{} {} {name}", self.verb, self.resource),
        );
        let status = match error {
            kube::Error::Api(status) => status,
            other => {
                let why = innermost(&other);
                return Trouble::Unreachable { tried, why };
            }
        };
        if is_rejection(&status) {
            let name = self
                .name
                .clone()
                .unwrap_or_else(|| self.resource.to_owned());
            return Trouble::Rejected {
                object: name,
                sentence: sentence(&status),
            };
        }
        match status.code {
            403 => Trouble::Forbidden {
                verb: self.verb,
                resource: self.resource.to_owned(),
                place: self.place.clone(),
            },
            404 if self.name.is_none() => Trouble::NoKind(self.resource),
            _ => Trouble::Unreachable {
                tried,
                why: status.message.clone(),
            },
        }
    }
}

/// The last of the causes: the others repeat it with more words before it.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(next) = last.source() {
        last = next;
    }
    last.to_string()
}

/// The schema, a rule, a webhook or a policy does not let the object in; the right to write it is there.
fn is_rejection(status: &Status) -> bool {
    match status.code {
        422 => true,
        400 | 403 => {
            status.message.contains("admission webhook")
                || status.message.contains("ValidatingAdmissionPolicy")
        }
        _other => false,
    }
}

/// In admission's own words, without those that the API server puts before them.
fn sentence(status: &Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let causes: Vec<String> = causes
        .map(|cause| {
            let said = after_value(&cause.message);
            if cause.field.is_empty() || cause.field == "<nil>" {
                said.to_owned()
            } else {
                format!("{}: {said}", cause.field)
            }
        })
        .collect();
    if !causes.is_empty() {
        return causes.join("; ");
    }
    let said = &status.message;
    said.split_once("denied the request: ")
        .map_or(said.as_str(), |(_, sentence)| sentence)
        .to_owned()
}

/// `Invalid value: "integer": the size is odd` → `the size is odd`.
fn after_value(message: &str) -> &str {
    let Some(rest) = message.strip_prefix("Invalid value: ") else {
        return message;
    };
    rest.split_once(": ")
        .map_or(message, |(_, sentence)| sentence)
}

impl Trouble {
    /// With which code the program ends.
    pub fn code(&self) -> u8 {
        match self {
            Self::Rejected { .. } | Self::Unconfirmed { .. } => REJECTED,
            Self::Late { .. } => TIMED_OUT,
            Self::NoConfig(_)
            | Self::Unreachable { .. }
            | Self::Forbidden { .. }
            | Self::Absent { .. }
            | Self::NoKind(_)
            | Self::Unreadable { .. }
            | Self::Usage(..)
            | Self::Output(_) => ERROR,
        }
    }

    /// What to do.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::NoConfig(_) => Some("name one with --kubeconfig or --context, or set $KUBECONFIG".to_owned()),
            Self::Forbidden {
                verb,
                resource,
                place,
            } => {
                let place = match place {
                    Where::Namespace(namespace) => format!(" -n {namespace}"),
                    Where::Everywhere => " --all-namespaces".to_owned(),
                    Where::Cluster => String::new(),
                };
                Some(format!(
                    "kubectl auth can-i {verb} {resource}{place}; the chart's ClusterRoles give it to those who are bound to view, edit or admin"
                ))
            }
            Self::Absent { near, .. } if near.is_empty() => {
                Some("kubectl etcd status -A lists all clusters".to_owned())
            }
            Self::Absent { near, .. } => Some(format!("did you mean {}?", near.join(", "))),
            Self::NoKind(_) => Some("install the chart, or upgrade it: docs/user/guides/install.md".to_owned()),
            Self::Unreadable { .. } => Some("use the release of kubectl etcd that belongs to the operator; kubectl etcd version tells them".to_owned()),
            Self::Unconfirmed { command, .. } => Some(command.clone()),
            Self::Usage(_, hint) => hint.clone(),
            Self::Unreachable { .. }
            | Self::Rejected { .. }
            | Self::Late { .. }
            | Self::Output(_) => None,
        }
    }

    /// As it is printed on stderr.
    pub fn tell(&self, screen: &crate::screen::Screen) -> String {
        let mut text = format!("error: {}\n", screen.wrap(&self.to_string(), 7));
        if let Some(hint) = self.hint() {
            crate::screen::put(&mut text, format_args!("hint: {}\n", screen.wrap(&hint, 6)));
        }
        text
    }
}
