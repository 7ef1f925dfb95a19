//! A client with the user's own rights.

use commands::Common;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use crate::trouble::Trouble;

/// The client, and the namespace that is meant where none is named.
pub async fn connect(common: &Common) -> Result<(Client, String), Trouble> {
    let choice = KubeConfigOptions {
        context: common.context.clone(),
        ..KubeConfigOptions::default()
    };
    let config = match &common.kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path).map_err(|error| no_config(&error))?;
            Config::from_custom_kubeconfig(file, &choice).await
        }
        None => Config::from_kubeconfig(&choice).await,
    };
    let config = match config {
        Ok(config) => config,
        // In a pod there is none, and the pod's own account serves.
        Err(error) if common.kubeconfig.is_none() && common.context.is_none() => {
            Config::incluster().map_err(|_inside| no_config(&error))?
        }
        Err(error) => return Err(no_config(&error)),
    };
    let namespace = common.namespace.clone();
    let namespace = namespace.unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config).map_err(|error| no_config(&error))?;
    Ok((client, namespace))
}

fn no_config(error: &dyn std::error::Error) -> Trouble {
    Trouble::NoConfig(error.to_string())
}
