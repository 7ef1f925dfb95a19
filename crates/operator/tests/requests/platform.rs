//! Whether the platform assigns users is asked once, at the start.

use manifests::PodUser;
use operator::args;
use operator::platform::Platform;

use super::*;

fn version() -> (u16, Value) {
    let version = json!({"major": "1", "minor": "36", "gitVersion": "v1.36.3", "gitCommit": "", "gitTreeState": "",
        "buildDate": "", "goVersion": "", "compiler": "", "platform": ""});
    (200, version)
}

fn groups(names: &[&str]) -> (u16, Value) {
    let group = |name: &&str| {
        let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
        json!({"name": name, "versions": [version], "preferredVersion": version})
    };
    let groups: Vec<Value> = names.iter().map(group).collect();
    (
        200,
        json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}),
    )
}

async fn found(said: args::PodUser, answers: Vec<(u16, Value)>) -> (PodUser, usize) {
    let (client, asked) = recorded(answers);
    let platform = Platform::ask(&client, said).await.unwrap();
    assert_eq!(platform.version, "v1.36.3");
    let asked = asked.lock().unwrap().len();
    (platform.pod_user, asked)
}

#[tokio::test]
async fn openshift_assigns_users_and_others_do_not() {
    let openshift = ["apps", "security.openshift.io"];
    for (groups_there, wanted) in [
        (&openshift[..], PodUser::Assigned),
        (&["apps", "route.openshift.io.example.org"], PodUser::Fixed),
    ] {
        let answers = vec![version(), groups(groups_there)];
        let found = found(args::PodUser::Auto, answers).await;
        assert_eq!(found, (wanted, 2), "{groups_there:?}");
    }
}

#[tokio::test]
async fn what_was_said_is_not_asked_for() {
    for (said, wanted) in [
        (args::PodUser::Fixed, PodUser::Fixed),
        (args::PodUser::Assigned, PodUser::Assigned),
    ] {
        assert_eq!(found(said, vec![version()]).await, (wanted, 1));
    }
}
