//! Pushes a layout to a registry, by the OCI distribution protocol: what is there already is not sent again, and what was
//! sent is asked for at the end. It knows nothing of what the image holds.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url};
use serde_json::Value;

use super::oci::{Descriptor, INDEX, Layout, MANIFEST};

/// For one request; a layer of a few megabytes included.
const PATIENCE: Duration = Duration::from_mins(5);

/// `HOST[:PORT]/PATH[:TAG]`, as it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) tag: Option<String>,
}

impl FromStr for Reference {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let form = "write HOST/PATH, such as registry.example.org/team/etcd-operator";
        let Some((host, rest)) = text.split_once('/') else {
            bail!("{text:?} names no registry: {form}")
        };
        // Otherwise the first part would be taken for a user of Docker Hub.
        let is_host = host == "localhost" || host.contains(['.', ':', '[']);
        ensure!(is_host, "{host:?} is no registry: {form}");
        ensure!(
            !rest.contains('@'),
            "{text:?} names a digest, which only follows from what is pushed: {form}"
        );
        let (path, tag) = match rest.split_once(':') {
            Some((path, tag)) => (path, Some(tag.to_owned())),
            None => (rest, None),
        };
        let is_name = |name: &str| {
            let is_good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
            name.starts_with(is_good) && name.chars().all(|c| is_good(c) || "._-".contains(c))
        };
        ensure!(
            path.split('/').all(is_name),
            "{path:?} is no name of an image: lower-case letters, digits, dots and dashes between slashes"
        );
        if let Some(tag) = &tag {
            let is_good = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
            ensure!(
                !tag.is_empty() && tag.len() <= 128 && tag.chars().all(is_good),
                "{tag:?} is no tag: letters, digits, dots, dashes and underscores"
            );
        }
        Ok(Self {
            host: host.to_owned(),
            path: path.to_owned(),
            tag,
        })
    }
}

impl Reference {
    /// Without a tag.
    pub(crate) fn repository(&self) -> String {
        format!("{}/{}", self.host, self.path)
    }

    /// A registry on this machine has no certificate.
    fn base(&self) -> Result<Url> {
        let name = match self.host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => name,
            _whole => &self.host,
        };
        let is_here = name == "localhost" || name.starts_with("127.") || name == "[::1]";
        let scheme = if is_here { "http" } else { "https" };
        // Docker Hub is served by another name than it is written with.
        let host = match self.host.as_str() {
            "docker.io" => "registry-1.docker.io",
            host => host,
        };
        let text = format!("{scheme}://{host}/v2/{}/", self.path);
        Url::parse(&text).with_context(|| format!("{text} is no address"))
    }
}

/// Pushes the index and all below it under `tag`.
pub(crate) fn push(layout: &Layout, index: &Descriptor, to: &Reference, tag: &str) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    // Another part of this program may have chosen it already.
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = Client::builder().timeout(PATIENCE).build()?;
    let basic = credentials(&to.host)?;
    let mut registry = Registry {
        client,
        base: to.base()?,
        basic,
        authorization: None,
    };
    runtime
        .block_on(registry.push(layout, index, tag))
        .with_context(|| format!("push to {}:{tag}", to.repository()))
}

struct Registry {
    client: Client,
    base: Url,
    /// User and password, as a header wants them.
    basic: Option<String>,
    /// What the registry was shown last.
    authorization: Option<String>,
}

impl Registry {
    async fn push(&mut self, layout: &Layout, index: &Descriptor, tag: &str) -> Result<()> {
        for manifest in layout.parts(index)? {
            for blob in layout.parts(&manifest)? {
                self.push_blob(layout, &blob).await?;
            }
            self.push_manifest(layout, &manifest, &manifest.digest)
                .await?;
        }
        self.push_manifest(layout, index, tag).await?;
        let stored = self.stored(tag).await?;
        ensure!(
            stored == layout.read(index)?,
            "the registry returns another index for {tag} than {}\nhint: does something else push this tag?",
            index.digest
        );
        Ok(())
    }

    async fn push_blob(&mut self, layout: &Layout, blob: &Descriptor) -> Result<()> {
        let place = self.base.join(&format!("blobs/{}", blob.digest))?;
        let there = self.ask(Method::HEAD, &place, &|request| request).await?;
        if there.status() == StatusCode::OK {
            return Ok(());
        }
        let content = layout.read(blob)?;
        let uploads = self.base.join("blobs/uploads/")?;
        let begun = self.ask(Method::POST, &uploads, &|request| request).await?;
        let begun = expect(begun, StatusCode::ACCEPTED, "begin an upload").await?;
        let location = begun.headers().get(LOCATION);
        let location = location.and_then(|location| location.to_str().ok());
        let location = location.context("the registry names no place for an upload")?;
        let mut place = uploads.join(location)?;
        // The registry decides where, and not which other host gets what authorizes us.
        ensure!(
            place.origin() == self.base.origin(),
            "the registry sends uploads to another host, {place}\nhint: push the archive with a tool that follows it, such as skopeo"
        );
        place.query_pairs_mut().append_pair("digest", &blob.digest);
        let sent = self
            .ask(Method::PUT, &place, &|request| {
                let request = request.header(CONTENT_TYPE, "application/octet-stream");
                request.body(content.clone())
            })
            .await?;
        let what = format!("store blob {}", blob.digest);
        expect(sent, StatusCode::CREATED, &what).await.map(drop)
    }

    async fn push_manifest(&mut self, layout: &Layout, of: &Descriptor, name: &str) -> Result<()> {
        let content = layout.read(of)?;
        let place = self.base.join(&format!("manifests/{name}"))?;
        let sent = self
            .ask(Method::PUT, &place, &|request| {
                let request = request.header(CONTENT_TYPE, &of.media_type);
                request.body(content.clone())
            })
            .await?;
        let what = format!("store manifest {name}");
        expect(sent, StatusCode::CREATED, &what).await.map(drop)
    }

    async fn stored(&mut self, tag: &str) -> Result<Vec<u8>> {
        let place = self.base.join(&format!("manifests/{tag}"))?;
        let accept = format!("{INDEX}, {MANIFEST}");
        let found = self
            .ask(Method::GET, &place, &|request| {
                request.header("Accept", &accept)
            })
            .await?;
        let found = expect(found, StatusCode::OK, "read what was pushed").await?;
        Ok(found.bytes().await?.to_vec())
    }

    /// Asks, and once more with what the registry demands.
    async fn ask(
        &mut self,
        method: Method,
        url: &Url,
        dress: &dyn Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Response> {
        let first = self.send(&method, url, dress).await?;
        if first.status() != StatusCode::UNAUTHORIZED {
            return Ok(first);
        }
        let challenge = first.headers().get(WWW_AUTHENTICATE);
        let challenge = challenge.and_then(|value| value.to_str().ok());
        let challenge = challenge.unwrap_or_default().to_owned();
        self.authorization = Some(self.authorize(&challenge).await?);
        self.send(&method, url, dress).await
    }

    async fn send(
        &self,
        method: &Method,
        url: &Url,
        dress: &dyn Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Response> {
        let mut request = self.client.request(method.clone(), url.clone());
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let sent = dress(request).send().await;
        sent.with_context(|| format!("{method} {}", url.path()))
    }

    async fn authorize(&self, challenge: &str) -> Result<String> {
        let basic = || self.basic.clone().map(|basic| format!("Basic {basic}"));
        let Some(parameters) = challenge.strip_prefix("Bearer ") else {
            return basic().context(
                "the registry demands a user\nhint: `docker login` or `podman login`, with the password in the file and not in a helper",
            );
        };
        let value = |name: &str| {
            let (_, rest) = parameters.split_once(&format!("{name}=\""))?;
            rest.split_once('"').map(|(value, _)| value)
        };
        let realm = value("realm").context("the registry names no issuer of tokens")?;
        let mut realm = Url::parse(realm).context("the issuer of tokens has no address")?;
        ensure!(
            realm.scheme() == "https" || self.base.scheme() == "http",
            "the registry sends us to an issuer of tokens without TLS, {realm}"
        );
        for name in ["service", "scope"] {
            if let Some(value) = value(name) {
                realm.query_pairs_mut().append_pair(name, value);
            }
        }
        let mut request = self.client.get(realm.clone());
        if let Some(basic) = basic() {
            request = request.header(AUTHORIZATION, basic);
        }
        let answer = request
            .send()
            .await
            .with_context(|| format!("ask {realm} for a token"))?;
        let answer = expect(answer, StatusCode::OK, "get a token").await?;
        let answer: Value = serde_json::from_slice(&answer.bytes().await?)?;
        let token = ["token", "access_token"].map(|name| answer.get(name).and_then(Value::as_str));
        let token = token.into_iter().flatten().next();
        token
            .map(|token| format!("Bearer {token}"))
            .context("the issuer of tokens gave none")
    }
}

/// The response, or an error with the registry's own words.
async fn expect(response: Response, wanted: StatusCode, what: &str) -> Result<Response> {
    let status = response.status();
    if status == wanted {
        return Ok(response);
    }
    let said = response.text().await.unwrap_or_default();
    let said: String = said.trim().chars().take(500).collect();
    let hint = match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            "\nhint: may this user push there? `docker login` or `podman login` with one that may"
        }
        _other => "",
    };
    bail!("the registry did not {what}: {status} {said}{hint}")
}

/// What `docker login` or `podman login` left for a host.
fn credentials(host: &str) -> Result<Option<String>> {
    let below = |name: &str, file: &str| {
        let directory = std::env::var_os(name).map(PathBuf::from);
        directory.map(|directory| directory.join(file))
    };
    let files = [
        std::env::var_os("REGISTRY_AUTH_FILE").map(PathBuf::from),
        below("DOCKER_CONFIG", "config.json"),
        below("XDG_RUNTIME_DIR", "containers/auth.json"),
        below("HOME", ".docker/config.json"),
    ];
    for file in files.into_iter().flatten().filter(|file| file.exists()) {
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
        let config: Value = serde_json::from_str(&text)
            .with_context(|| format!("{} is no JSON", file.display()))?;
        if let Some(found) = credentials_in(&config, host) {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

fn credentials_in(config: &Value, host: &str) -> Option<String> {
    let auths = config.get("auths")?;
    // Docker Hub is the one that is kept under an old name.
    let names = match host {
        "docker.io" => ["https://index.docker.io/v1/", "docker.io"],
        host => [host, host],
    };
    let entry = names.into_iter().find_map(|name| auths.get(name))?;
    let auth = entry.get("auth").and_then(Value::as_str);
    auth.filter(|auth| !auth.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests;
