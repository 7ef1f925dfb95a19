//! How long a store may be silent. A limit for a whole request would also be one for the size of a backup: reading a large
//! object takes as long as it takes, and so does joining the parts of one. So the limit is for each piece of an answer. Stores
//! join parts before they say a word: for that, the upload has a limit of its own.

use std::pin::Pin;
use std::time::Duration;

use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpService, ReqwestConnector,
};

/// Makes clients that wait so long for each piece of an answer.
#[derive(Debug)]
pub(super) struct Patience(pub(super) Duration);

impl HttpConnector for Patience {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let connect = |options: ClientOptions| ReqwestConnector::default().connect(&options);
        let endless = options.clone().with_timeout_disabled();
        Ok(HttpClient::new(Patient {
            usual: connect(endless.clone().with_read_timeout(self.0))?,
            joining: connect(endless)?,
        }))
    }
}

#[derive(Debug)]
struct Patient {
    usual: HttpClient,
    /// Without any limit but that of the connection, which is probed while nothing is said.
    joining: HttpClient,
}

impl HttpService for Patient {
    // As the macro of `async_trait` writes it.
    fn call<'life, 'out>(
        &'life self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'out>>
    where
        'life: 'out,
        Self: 'out,
    {
        let client = if joins(&request) {
            &self.joining
        } else {
            &self.usual
        };
        Box::pin(client.execute(request))
    }
}

/// Whether it tells the store to make one object of parts: in S3, and in the dialect of it that GCS speaks.
fn joins(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    let mut words = query.split('&');
    request.method().as_str() == "POST" && words.any(|word| word.starts_with("uploadId="))
}
