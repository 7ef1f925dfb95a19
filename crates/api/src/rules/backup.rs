//! Backups: what cannot be a backup is rejected when it is written. Objects that the predecessor stored stay readable: what
//! it accepted and never used, a condition tells.

use super::{CelRule, always};

pub(crate) const ALL: &[CelRule] = &[
    always(
        &["spec"],
        "self.clusterName == oldSelf.clusterName",
        "clusterName cannot be changed: create another EtcdBackup",
    ),
    always(
        &["spec"],
        "self.storageType != 'S3' || has(self.s3)",
        "storageType S3 needs s3: write at least s3.bucket",
    ),
    always(
        &["spec"],
        "self.storageType == 'S3' || !has(self.s3)",
        "s3 is for storageType S3: leave it out, or write storageType: S3",
    ),
    always(
        &["spec"],
        "self.storageType == 'GCS' || !has(self.gcs)",
        "gcs is for storageType GCS: leave it out, or write storageType: GCS",
    ),
    always(
        &["spec"],
        "self.storageType == 'Azure' ? has(self.azure) : !has(self.azure)",
        "storageType Azure needs azure, and no other storageType has it",
    ),
    always(
        &["spec"],
        "self.storageType == 'Local' || !has(self.local)",
        "local is for storageType Local: leave it out, or write storageType: Local",
    ),
    always(
        &["spec", "schedule"],
        "self.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[^ @]+( +[^ ]+){4})$')",
        "a schedule has the five fields of cron, such as 0 2 * * *: minute, hour, day of the month, month, day of the week",
    ),
    always(
        &["spec", "verify", "schedule"],
        "self.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[^ @]+( +[^ ]+){4})$')",
        "a schedule has the five fields of cron, such as 0 5 * * 0: minute, hour, day of the month, month, day of the week; leave it out to verify after each backup",
    ),
    always(
        &["spec", "retentionPolicy", "maxAge"],
        "self.matches('^[1-9][0-9]{0,8}[smhdw]$')",
        "an age is a number and one of s, m, h, d and w, such as 30d",
    ),
    always(
        &["spec", "s3"],
        "!has(self.endpoint) || self.endpoint.matches('^https?://[^/]+/?$')",
        "an endpoint is a URL without a path, such as https://s3.example.org; the bucket is written as bucket",
    ),
    always(
        &["spec", "s3"],
        "!has(self.endpoint) || !self.endpoint.startsWith('http://') || (has(self.allowHTTP) && self.allowHTTP)",
        "an endpoint without TLS shows the data to everyone on the way: write https://, or allowHTTP: true",
    ),
    always(
        &["spec", "s3"],
        "has(self.accessKeySecret) == has(self.secretKeySecret)",
        "accessKeySecret and secretKeySecret go together, and may name the same Secret",
    ),
    always(
        &["spec", "encryption", "recipients", "*"],
        "self.matches('^age1[02-9ac-hj-np-z]{58}$')",
        "a recipient is a public key of age, which begins with age1; the private key (AGE-SECRET-KEY-…) does not belong here",
    ),
];
