//! The lower table: rules over the members of a cluster that has formed. The first that answers wins. This module names the
//! rules, and none of them imports it.

use crate::cluster::allowed::{first_allowed, hold};
use crate::cluster::{
    auth, claims, corrupt, debug, hang, join, lost, maintain, peers, recall, recover, replace,
    rollout, shrink, storage, versions, waiting,
};
use crate::decision::Decision;
use crate::observed::{MemberList, Observed};

type Rule = fn(&Observed, &MemberList) -> Option<Decision>;

/// Every entry says why it stands where it stands.
const RULES: &[Rule] = &[
    // First: every rule about templates, releases and joiners rests on what the members run.
    recall::remember,
    // Before the repairs: a member that the others look for under another scheme than it listens on is not broken.
    peers::list_schemes,
    // Before any rule that removes or restarts a member: where no majority agrees, it may be the one whose data is right.
    corrupt::decide,
    // Before the rules that remove members and delete claims: what is recorded of a departure decides over a volume, and a
    // record that no longer holds must not.
    shrink::forget,
    // Before `replace`, which gives up the volume as well: here the pod waits at the gate, and only its data is gone. Before
    // `join`: the member that is listed for it goes before another is added.
    lost::remove_lost,
    // Before everything that waits until every member is well, which one that cannot come back never is; and etcd adds no
    // member while a voter is not connected.
    replace::decide,
    // After `replace`, which takes the members that a restart did not help. Before the rest, for the same reason.
    hang::decide,
    // After the repairs, because it waits until every voter is well. Before rollouts: a cluster that takes no writes does not
    // wait for a template.
    maintain::relieve,
    // Before members leave or join: a restart that is recorded is carried out or dropped before the quorum changes under it.
    rollout::go_on,
    // Before `join`: a pod whose agent does not know would start etcd on what a removed member left, again and again.
    // Of these two the order is free: no member is both.
    shrink::tell_removed,
    shrink::tell_vanished,
    // Before `retire`: one departure ends, volume and pod included, before the next one begins.
    shrink::delete_claim,
    // After `delete_claim`: a claim whose member is recorded as removed is known better than one that merely has none.
    claims::sweep,
    // Before `join`: fewer before more. A member that is added and then removed would cost two changes of the quorum. But a
    // repair outranks a wish: a voter without which fewer would vote than are asked for stays until `join` has brought the
    // member that is missing.
    shrink::retire,
    // Before `join`: etcd lets in no member that is newer than the version that it goes down to.
    versions::renewal,
    // Each needs the one before: a wait is recorded, a member is added for it, the pod is granted its start. The promotion
    // comes last, because on 3.6 and later a learner that is added before another's promotion costs nothing.
    join::latch_joins,
    join::add,
    join::grant_join,
    join::promote,
    // After `join`: no change is begun while a member joins. Before the rules that only wait: the change may be what
    // repairs the member that they wait for.
    rollout::begin,
    // Before `incomplete`, which takes a member that answers for well.
    hang::wait,
    // Before `incomplete`: what this operator does to a member explains why that member is missing.
    maintain::under_way,
    // After `join`, which is what it waits for. Before `incomplete`, which names the member that is missing and not why another
    // one stays.
    shrink::staying,
    // Before everything below, which is for a cluster that is complete. A claim that is to grow does not wait for it
    // (`storage::grow_meanwhile`).
    waiting::incomplete,
    // Before `refused`: a release that cannot be reached keeps no volume small.
    storage::grow,
    // After all that can be done without the release. Above the rest, so that the condition says it.
    versions::refused,
    // After everything that restarts a pod, with which the container would go.
    debug::debug,
    // After everything that acts: it only waits. Before upkeep, which does not begin while a member leaves.
    shrink::departing,
    // Only in a cluster that has nothing else to do: until then what was tried before is worth knowing.
    hang::forget,
    rollout::forget,
    // After all else: it disturbs a member without need.
    maintain::tidy_up,
    // After everything that acts: what was called off is waited for until a person changes it, and keeps no database large.
    rollout::called_off,
    // Last: it says that nothing helps, which holds only once everything that could has been asked.
    maintain::exhausted,
];

/// A recovery comes before the table, because its members belong to no cluster that has a list. Volumes grow beside whatever
/// is waited for, because a full disk may be the cause, and so do users. A step that failed holds up no rule below it.
pub(super) fn decide(observed: &Observed) -> Option<Decision> {
    auth::meanwhile(observed, of_members(observed))
}

fn of_members(observed: &Observed) -> Option<Decision> {
    let recovery = recover::decide(observed).map(|decision| hold(observed, decision));
    let decision = recovery.or_else(|| match &observed.etcd.members {
        None => Some(
            recover::without_a_list(observed).unwrap_or_else(|| waiting::unreachable(observed)),
        ),
        Some(list) => {
            let answers = RULES.iter().filter_map(|rule| rule(observed, list));
            first_allowed(observed, answers)
        }
    })?;
    Some(storage::grow_meanwhile(observed, decision))
}
