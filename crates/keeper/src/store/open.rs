//! Opens a store with the credentials that are mounted; without any, with those that the pod's service account brings. The
//! authorities come with the binary, because the image has none.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use archive::work::{self, Cause};
use object_store::aws::{AmazonS3Builder, Checksum};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::{BackoffConfig, Certificate, ClientOptions, RetryConfig};

use super::Store;
use super::patience::Patience;
use crate::args::Args;
use crate::fault::{Explain as _, Fault, Result};

const CONNECT: Duration = Duration::from_secs(10);

/// How long a store is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// For an answer to begin, and for each further piece of it. A part must be through in this time; what is slower is given up
    /// anyway. Parts that are joined have a limit of their own ([`crate::upload`]).
    pub(crate) piece: Duration,
    /// How often a request is repeated.
    pub(crate) retries: usize,
}

impl Limits {
    const USUAL: Self = Self {
        piece: Duration::from_mins(1),
        retries: 6,
    };
}

/// Opens a store. Nothing is sent yet.
pub(crate) fn open(store: &work::Store, args: &Args) -> Result<Store> {
    open_within(store, args, Limits::USUAL)
}

/// The same with other limits.
pub(crate) fn open_within(store: &work::Store, args: &Args, limits: Limits) -> Result<Store> {
    // The client of the stores takes the process's default; the other one, of aws-lc, is not compiled in. It can be set
    // only once, and that it is set already is what we want.
    drop(rustls::crypto::ring::default_provider().install_default());
    let secrets = Secrets(&args.store_secrets);
    let what = "open the store";
    match store {
        work::Store::S3 { bucket, path, .. } => {
            let built = s3(store, &secrets, limits)?
                .build()
                .explain(Cause::Store, what)?;
            Ok(remote(built, format!("s3://{bucket}/"), path))
        }
        work::Store::Gcs { bucket, path } => {
            let mut builder = GoogleCloudStorageBuilder::from_env()
                .with_bucket_name(bucket)
                .with_client_options(client(&secrets, false)?)
                .with_http_connector(Patience(limits.piece))
                .with_retry(retry(limits));
            let key = secrets.any(&["service-account.json", "credentials.json"])?;
            if let Some(key) = key {
                builder = builder.with_service_account_key(key);
            }
            let built = builder.build().explain(Cause::Store, what)?;
            Ok(remote(built, format!("gs://{bucket}/"), path))
        }
        work::Store::Azure {
            account,
            container,
            path,
        } => {
            let mut builder = MicrosoftAzureBuilder::from_env()
                .with_account(account)
                .with_container_name(container)
                .with_client_options(client(&secrets, false)?)
                .with_http_connector(Patience(limits.piece))
                .with_retry(retry(limits));
            if let Some(key) = secrets.any(&["account-key", "AZURE_STORAGE_ACCOUNT_KEY"])? {
                builder = builder.with_access_key(key);
            }
            let built = builder.build().explain(Cause::Store, what)?;
            Ok(remote(
                built,
                format!("azure://{account}/{container}/"),
                path,
            ))
        }
        work::Store::Local { path } => {
            let directory = args.local.display();
            let built = LocalFileSystem::new_with_prefix(&args.local);
            let built = built.explain(Cause::Store, format!("{what} {directory}"))?;
            let built = built.with_fsync(true).with_automatic_cleanup(true);
            Ok(Store {
                is_remote: false,
                ..remote(built, format!("file://{directory}/"), path)
            })
        }
    }
}

fn remote(objects: impl object_store::ObjectStore, address: String, path: &str) -> Store {
    Store {
        objects: Arc::new(objects),
        address,
        path: path.to_owned(),
        is_remote: true,
    }
}

fn s3(store: &work::Store, secrets: &Secrets<'_>, limits: Limits) -> Result<AmazonS3Builder> {
    let mut builder = AmazonS3Builder::from_env()
        .with_http_connector(Patience(limits.piece))
        .with_retry(retry(limits));
    let work::Store::S3 {
        bucket,
        region,
        endpoint,
        path_style,
        allow_http,
        checksum,
        ..
    } = store
    else {
        return Ok(builder);
    };
    builder = builder
        .with_bucket_name(bucket)
        .with_region(region.as_deref().unwrap_or("us-east-1"))
        .with_virtual_hosted_style_request(!path_style)
        .with_client_options(client(secrets, *allow_http)?)
        // Each delete is told by itself: of a lock on one object, the others need not know.
        .with_disable_bulk_delete(true);
    if let Some(endpoint) = endpoint {
        builder = builder.with_endpoint(endpoint);
    }
    if *checksum {
        builder = builder.with_checksum_algorithm(Checksum::SHA256);
    }
    if let Some(key) = secrets.any(&["access-key", "AWS_ACCESS_KEY_ID"])? {
        builder = builder.with_access_key_id(key);
    }
    if let Some(key) = secrets.any(&["secret-key", "AWS_SECRET_ACCESS_KEY"])? {
        builder = builder.with_secret_access_key(key);
    }
    if let Some(token) = secrets.any(&["session-token", "AWS_SESSION_TOKEN"])? {
        builder = builder.with_token(token);
    }
    Ok(builder)
}

/// A store that is away is told to the operator within a minute; the Job is made again later.
fn retry(limits: Limits) -> RetryConfig {
    RetryConfig {
        backoff: BackoffConfig::default(),
        max_retries: limits.retries,
        retry_timeout: Duration::from_secs(45),
    }
}

fn client(secrets: &Secrets<'_>, allow_http: bool) -> Result<ClientOptions> {
    let mut options = ClientOptions::new()
        .with_no_system_certificates(true)
        .with_allow_http(allow_http)
        .with_connect_timeout(CONNECT);
    let what = "read the authorities of the store";
    if let Some(own) = secrets.any(&["ca.crt"])? {
        let all = Certificate::from_pem_bundle(own.as_bytes()).explain(Cause::Request, what)?;
        if all.is_empty() {
            let message = format!("{what}: there is no certificate in PEM in ca.crt");
            return Err(Fault::new(Cause::Request, message));
        }
        return Ok(all
            .into_iter()
            .fold(options, ClientOptions::with_root_certificate));
    }
    for root in webpki_root_certs::TLS_SERVER_ROOT_CERTS {
        let root = Certificate::from_der(root).explain(Cause::Request, what)?;
        options = options.with_root_certificate(root);
    }
    Ok(options)
}

/// A directory of mounted keys.
struct Secrets<'a>(&'a Path);

impl Secrets<'_> {
    /// The first of these files that is there. A line break at its end is not meant.
    fn any(&self, names: &[&str]) -> Result<Option<String>> {
        for name in names {
            let path = self.0.join(name);
            if path.is_file() {
                let text = std::fs::read_to_string(&path);
                let text = text.explain(Cause::Request, format!("read {}", path.display()))?;
                return Ok(Some(text.trim_end().to_owned()));
            }
        }
        Ok(None)
    }
}
