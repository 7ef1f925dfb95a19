//! What a person can do where no member has data any more: the backup to begin with, and the command.

use std::fmt;

use jiff::Timestamp;

/// The way back, as far as one is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// ID of the etcd cluster that is lost.
    pub lost: u64,
    /// The backup to begin with; `None` where no EtcdBackup lists one.
    pub backup: Option<Known>,
    /// What `spec.recovery.onEverythingLost: FromBackup` does about it; `None` where that is not written.
    pub by_itself: Option<ByItself>,
}

/// A backup that an EtcdBackup lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Known {
    /// The EtcdBackup.
    pub by: String,
    /// Its ID.
    pub id: String,
    /// When it was complete.
    pub time: Timestamp,
    /// A verification found it good.
    pub verified: bool,
    /// A newer one of which none said so, and when that was complete.
    pub newer: Option<(String, Timestamp)>,
    /// It is encrypted, and no Secret is known that decrypts it.
    pub locked: bool,
    /// Secret that decrypts it.
    pub identity: Option<String>,
}

/// How far the operator is by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ByItself {
    /// The loss has not been proved for a minute.
    Waits,
    /// Data may come back.
    Unproved,
    /// It is read before anything is touched.
    Reads,
    /// It cannot begin with it, for this cause.
    Blocked(String),
    /// It did so, or tried to, for this etcd cluster.
    Ended,
    /// The backup is not of the etcd cluster that is lost.
    OfAnother,
}

impl Way {
    /// The EtcdRestore in one line, for a shell.
    fn command(&self, known: &Known, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (namespace, name, lost) = (&self.namespace, &self.name, self.lost);
        let identity = match (&known.identity, known.locked) {
            (Some(secret), _) => format!(r#","identitySecret":"{secret}""#),
            (None, true) => r#","identitySecret":"SECRET-WITH-THE-KEY""#.to_owned(),
            (None, false) => String::new(),
        };
        write!(
            out,
            r#"echo '{{"apiVersion":"etcd.etcd.io/v1alpha1","kind":"EtcdRestore","metadata":{{"namespace":"{namespace}","generateName":"{name}-"}},"spec":{{"clusterName":"{name}","restoreType":"Replace","replaces":"{lost:x}","backupName":"{}","backup":"{}"{identity}}}}}' | kubectl create -f -"#,
            known.by, known.id
        )
    }
}

impl fmt::Display for Way {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.backup {
            None => out.write_str(
                "No EtcdBackup of this namespace lists a backup of it. Where a store has one, create an EtcdRestore with restoreType: Replace and source",
            )?,
            Some(known) => {
                let verified = if known.verified {
                    "the newest one that was verified"
                } else {
                    "the newest one, which was not verified"
                };
                let time = known.time.strftime("%F %H:%M UTC");
                write!(
                    out,
                    "There is a backup of it: {} of {time}, {verified} (EtcdBackup {})",
                    known.id, known.by
                )?;
                if let Some((id, time)) = &known.newer {
                    let time = time.strftime("%F %H:%M UTC");
                    write!(out, "; {id} of {time} is newer, and was not verified")?;
                }
                out.write_str(". To begin with it, and lose what was written after it: ")?;
                self.command(known, out)?;
            }
        }
        match &self.by_itself {
            None => Ok(()),
            Some(by_itself) => write!(out, ". spec.recovery.onEverythingLost: {by_itself}"),
        }
    }
}

impl fmt::Display for ByItself {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Waits => out.write_str("begins once that has been so for a minute"),
            Self::Unproved => out.write_str(
                "does nothing while a volume may still hold data, or a member is not heard",
            ),
            Self::Reads => out.write_str("the backup is being read before anything is touched"),
            Self::Blocked(why) => write!(out, "cannot begin: {why}"),
            Self::Ended => out.write_str(
                "has begun with a backup, or given that up, once for this etcd cluster, and does not do so again",
            ),
            Self::OfAnother => out.write_str(
                "does nothing, because that backup is not of the etcd cluster that is lost but of an earlier one",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn way() -> Way {
        Way {
            namespace: "ns".to_owned(),
            name: "db".to_owned(),
            lost: 0x00c0_ffee,
            backup: Some(Known {
                by: "nightly".to_owned(),
                id: "20261118-020000-abcd".to_owned(),
                time: "2026-11-18T02:00:01Z".parse().unwrap(),
                verified: true,
                newer: None,
                locked: false,
                identity: None,
            }),
            by_itself: None,
        }
    }

    /// What stands between the quotes of the command.
    fn object(way: &Way) -> serde_json::Value {
        let told = way.to_string();
        let json = told.split('\'').nth(1).unwrap();
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn the_command_creates_an_etcdrestore_that_admission_accepts() {
        let mut way = way();
        let object = object(&way);
        let spec: api::v1alpha1::restore::EtcdRestoreSpec =
            serde_json::from_value(object["spec"].clone()).unwrap();
        assert_eq!(spec.replaces.as_deref(), Some("c0ffee"));
        assert_eq!(spec.backup_name.as_deref(), Some("nightly"));
        assert_eq!(spec.backup.as_deref(), Some("20261118-020000-abcd"));
        assert_eq!(object["metadata"]["namespace"], "ns");
        way.backup.as_mut().unwrap().locked = true;
        let object = self::object(&way);
        assert_eq!(object["spec"]["identitySecret"], "SECRET-WITH-THE-KEY");
    }

    #[test]
    fn a_newer_one_that_was_not_verified_is_named() {
        let mut way = way();
        let time = "2026-11-18T03:00:00Z".parse().unwrap();
        way.backup.as_mut().unwrap().newer = Some(("later".to_owned(), time));
        let told = way.to_string();
        assert!(
            told.contains("later of 2026-11-18 03:00 UTC is newer"),
            "{told}"
        );
    }
}
