//! Users, roles and permissions, with callers that are known by their certificates.

use std::path::PathBuf;

use etcd::Consistency::Linearizable;
use etcd::{Access, AuthStatus, Cause, Error, Member, Permission};
use pki::Authority;

use crate::cluster::{eventually, handles, promoted, serving};
use crate::locked::{Locked, NAME, authority, issue, validity};
use crate::process::Seat;

/// A locked member, and those who ask it.
struct Guarded {
    locked: Locked,
    authority: Authority,
}

impl Guarded {
    async fn new(binary: &PathBuf) -> Self {
        let authority = authority();
        let locked = Locked::new(binary, &authority);
        let guarded = Self { locked, authority };
        serving(&guarded.asked_by("root")).await;
        guarded
    }

    /// A caller whose certificate has this name.
    fn asked_by(&self, user: &str) -> Member {
        let pair = issue(&self.authority, user, &[], validity());
        self.locked
            .asked_with(&pair, self.authority.certificate(), NAME)
    }

    /// Authentication with the two users that the operator makes; the operator.
    async fn enabled(&self) -> Member {
        let operator = self.asked_by("etcd-operator");
        operator.role_add("root").await.unwrap();
        for user in ["root", "etcd-operator"] {
            operator.user_add(user, None).await.unwrap();
            operator.user_grant_role(user, "root").await.unwrap();
        }
        operator.auth_enable().await.unwrap();
        operator
    }
}

fn registry(access: Access) -> Permission {
    Permission {
        access,
        key: b"/registry/".to_vec(),
        range_end: b"/registry0".to_vec(),
    }
}

#[track_caller]
fn refused<T: std::fmt::Debug>(answer: Result<T, Error>) -> Cause {
    let error = answer.unwrap_err();
    assert!(!error.outcome_is_unknown(), "{error:?}");
    error.cause
}

macro_rules! assert_refused {
    ($call:expr, $cause:ident) => {
        let cause = refused($call.await);
        assert!(matches!(cause, Cause::$cause), "{cause:?}");
    };
}

pub(crate) async fn users_and_roles_are_kept_and_counted_by_certificate(binary: PathBuf) {
    let guarded = Guarded::new(&binary).await;
    let operator = guarded.asked_by("etcd-operator");
    let off = operator.auth_status().await.unwrap();
    assert!(!off.enabled);
    operator.auth_disable().await.unwrap();
    assert_refused!(operator.auth_enable(), RootUserMissing);
    operator.user_add("root", None).await.unwrap();
    assert_refused!(operator.auth_enable(), RootRoleMissing);
    operator.user_delete("root").await.unwrap();
    let operator = guarded.enabled().await;
    // Once more is no error.
    operator.auth_enable().await.unwrap();
    operator.user_grant_role("root", "root").await.unwrap();
    let AuthStatus { enabled, revision } = operator.auth_status().await.unwrap();
    assert!(enabled && revision > off.revision);

    operator.role_add("app").await.unwrap();
    operator.user_add("app", Some("secret")).await.unwrap();
    operator.user_grant_role("app", "app").await.unwrap();
    for access in [Access::Read, Access::Read, Access::ReadWrite] {
        let permission = registry(access);
        operator
            .role_grant_permission("app", &permission)
            .await
            .unwrap();
        assert_eq!(operator.role_get("app").await.unwrap(), [permission]);
    }
    assert_eq!(operator.user_get("app").await.unwrap(), ["app"]);
    let users = ["app", "etcd-operator", "root"];
    assert_eq!(operator.user_list().await.unwrap(), users);
    assert_eq!(operator.role_list().await.unwrap(), ["app", "root"]);

    let app = guarded.asked_by("app");
    app.put(b"/registry/x", b"1").await.unwrap();
    let read = app.get(b"/registry/x", Linearizable).await.unwrap();
    assert_eq!(read.unwrap().value, b"1");
    assert_refused!(app.put(b"/other", b"1"), PermissionDenied);
    assert_refused!(app.get(b"/other", Linearizable), PermissionDenied);
    assert_refused!(app.user_list(), PermissionDenied);
    // A certificate that is no user's may do nothing with keys, and still ask how the member is.
    let stranger = guarded.asked_by("stranger");
    assert_refused!(stranger.put(b"/registry/x", b"1"), PermissionDenied);
    stranger.status().await.unwrap();

    operator
        .role_revoke_permission("app", b"/registry/", b"/registry0")
        .await
        .unwrap();
    assert_eq!(operator.role_get("app").await.unwrap(), []);
    assert_refused!(app.get(b"/registry/x", Linearizable), PermissionDenied);
    operator.auth_disable().await.unwrap();
    assert!(!operator.auth_status().await.unwrap().enabled);
    app.put(b"/other", b"1").await.unwrap();
    assert_eq!(operator.user_list().await.unwrap(), users);
}

pub(crate) async fn refusals_about_users_and_roles_keep_their_meaning(binary: PathBuf) {
    let guarded = Guarded::new(&binary).await;
    let root = guarded.asked_by("root");
    assert_refused!(root.authenticate("root", "x"), AuthNotEnabled);
    let operator = guarded.enabled().await;
    operator.role_add("app").await.unwrap();
    operator.user_add("app", None).await.unwrap();

    assert_refused!(operator.user_add("app", None), UserExists);
    assert_refused!(operator.user_get("none"), UserNotFound);
    assert_refused!(operator.user_delete("none"), UserNotFound);
    assert_refused!(operator.user_change_password("none", "x"), UserNotFound);
    assert_refused!(operator.user_grant_role("none", "app"), UserNotFound);
    assert_refused!(operator.user_grant_role("app", "none"), RoleNotFound);
    assert_refused!(operator.user_revoke_role("app", "app"), RoleNotGranted);
    assert_refused!(operator.role_add("app"), RoleExists);
    assert_refused!(operator.role_get("none"), RoleNotFound);
    assert_refused!(operator.role_delete("none"), RoleNotFound);
    let permission = registry(Access::Write);
    assert_refused!(
        operator.role_grant_permission("none", &permission),
        RoleNotFound
    );
    assert_refused!(
        operator.role_revoke_permission("app", b"x", b""),
        PermissionNotGranted
    );
    assert_refused!(operator.user_delete("root"), InvalidAuthManagement);
    assert_refused!(operator.role_delete("root"), InvalidAuthManagement);
    assert_refused!(
        operator.user_revoke_role("root", "root"),
        InvalidAuthManagement
    );

    operator.user_grant_role("app", "app").await.unwrap();
    operator.role_delete("app").await.unwrap();
    assert!(operator.user_get("app").await.unwrap().is_empty());
    operator.user_delete("app").await.unwrap();
}

/// etcd 3.5 has other words for some of these.
pub(crate) async fn upkeep_needs_the_role_root(binary: PathBuf) {
    let guarded = Guarded::new(&binary).await;
    let operator = guarded.enabled().await;
    operator.user_add("app", None).await.unwrap();
    let (app, stranger) = (guarded.asked_by("app"), guarded.asked_by("stranger"));
    let list = operator.member_list(Linearizable).await.unwrap();
    let [alone] = list.members.try_into().unwrap();
    for (caller, is_user) in [(&app, true), (&stranger, false)] {
        caller.status().await.unwrap();
        let answers = [
            refused(caller.hash_kv(0).await),
            refused(caller.defragment().await),
            refused(caller.member_update(alone.id, &alone.peer_urls).await),
            refused(caller.member_remove(alone.id).await),
            refused(caller.auth_disable().await),
        ];
        for cause in answers {
            match cause {
                Cause::PermissionDenied => assert!(is_user, "{cause:?}"),
                // Where the role is asked for, a caller that is no user is told apart.
                Cause::UserNotFound => assert!(!is_user, "{cause:?}"),
                other => panic!("{other:?}"),
            }
        }
    }
    let revision = operator.put(b"x", b"1").await.unwrap();
    operator.read_linearizable().await.unwrap();
    operator.compact(revision, true).await.unwrap();
    operator.hash_kv(0).await.unwrap();
    operator.defragment().await.unwrap();
    assert!(operator.alarms().await.unwrap().is_empty());
    let updated = operator.member_update(alone.id, &alone.peer_urls);
    updated.await.unwrap();
}

/// As an operator without certificates meets a cluster whose authentication was enabled by hand.
pub(crate) async fn a_caller_without_a_name_is_told_so(binary: PathBuf) {
    let seat = Seat::new("c-0");
    let _process = seat.start_alone(&binary);
    let [member] = handles([&seat]);
    serving(&member).await;
    member.user_add("root", Some("secret")).await.unwrap();
    member.role_add("root").await.unwrap();
    member.user_grant_role("root", "root").await.unwrap();
    member.auth_enable().await.unwrap();
    // Not even this is answered, which any certificate may ask.
    assert_refused!(member.status(), NoUser);
    assert_refused!(member.member_list(Linearizable), NoUser);
    assert_refused!(member.put(b"x", b"1"), NoUser);
    assert_refused!(member.read_linearizable(), NoUser);
    assert_refused!(member.hash_kv(0), NoUser);
    assert_refused!(member.member_add_learner("http://127.0.0.1:1"), NoUser);
    assert_refused!(member.user_list(), NoUser);
}

pub(crate) async fn passwords_are_tried_and_changed(binary: PathBuf) {
    let guarded = Guarded::new(&binary).await;
    let operator = guarded.enabled().await;
    operator.user_add("app", Some("first")).await.unwrap();
    operator.authenticate("app", "first").await.unwrap();
    assert_refused!(operator.authenticate("app", "second"), AuthFailed);
    assert_refused!(operator.authenticate("none", "second"), AuthFailed);
    operator
        .user_change_password("app", "second")
        .await
        .unwrap();
    operator.authenticate("app", "second").await.unwrap();
    assert_refused!(operator.authenticate("app", "first"), AuthFailed);
    // A user without a password has none that could be guessed.
    for password in ["", "x"] {
        assert_refused!(operator.authenticate("root", password), AuthFailed);
    }
    // etcd says that it gave it one, counts that as a change, and did not.
    let before = operator.auth_status().await.unwrap().revision;
    operator.user_change_password("root", "x").await.unwrap();
    let after = operator.auth_status().await.unwrap().revision;
    assert_eq!(after, before + 1);
    assert_refused!(operator.authenticate("root", "x"), AuthFailed);
    // Nor can root be made again, until authentication is off.
    assert_refused!(operator.user_delete("root"), InvalidAuthManagement);
    operator.auth_disable().await.unwrap();
    assert_refused!(operator.authenticate("root", "x"), AuthNotEnabled);
    operator.user_delete("root").await.unwrap();
    operator.user_add("root", Some("first")).await.unwrap();
    operator.user_grant_role("root", "root").await.unwrap();
    operator.auth_enable().await.unwrap();
    operator.authenticate("root", "first").await.unwrap();
    operator
        .user_change_password("root", "other")
        .await
        .unwrap();
    assert_refused!(operator.authenticate("root", "first"), AuthFailed);
    operator.authenticate("root", "other").await.unwrap();
}

/// Everything that the operator asks of several members, while they ask who calls.
pub(crate) async fn members_change_while_callers_are_known_by_certificate(binary: PathBuf) {
    let guarded = Guarded::new(&binary).await;
    let operator = guarded.enabled().await;
    let first = serving(&operator).await;
    let seat = Seat::new("c-1");
    let url = seat.peer_url();
    let added = operator.member_add_learner(&url).await.unwrap();
    let joined = guarded.locked.join(&binary, seat, &guarded.authority);
    let pair = issue(&guarded.authority, "etcd-operator", &[], validity());
    let trust = guarded.authority.certificate();
    let second = joined.asked_with(&pair, trust, NAME);
    eventually("the learner serves", async || second.status().await.ok()).await;
    promoted(&operator, added.id).await;
    serving(&second).await;
    operator.move_leader(added.id).await.unwrap();
    let revision = second.put(b"x", b"1").await.unwrap();
    for member in [&operator, &second] {
        member.read_linearizable().await.unwrap();
        member.hash_kv(0).await.unwrap();
        member.defragment().await.unwrap();
        assert!(member.alarms().await.unwrap().is_empty());
    }
    second.compact(revision, true).await.unwrap();
    let no_space = etcd::Alarm {
        member_id: first,
        kind: etcd::AlarmKind::NoSpace,
    };
    second.disarm(no_space).await.unwrap();
    second.member_update(added.id, &[url]).await.unwrap();
    // The number that tells of every change, without an entry in the log.
    for user in ["one", "two"] {
        operator.user_add(user, None).await.unwrap();
        let told = operator.auth_status().await.unwrap().revision;
        eventually("the metrics follow", async || {
            let seen = joined.metrics(&pair, trust).await.auth_revision;
            (seen == Some(told)).then_some(())
        })
        .await;
    }
    eventually("the member is removed", async || {
        second.member_remove(first).await.ok()
    })
    .await;
}
