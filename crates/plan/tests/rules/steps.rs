//! Steps by a name of their own, to count which of them were reached.

use gate::Action;
use plan::Step;

pub(crate) fn kind(step: &Step) -> &'static str {
    match step {
        Step::Nothing => "nothing",
        Step::Wait => "wait",
        Step::Refuse => "refuse",
        Step::RemoveFinalizer => "release",
        Step::ApplyObjects(_) => "apply",
        Step::RestoreTemplate(_) => "restore",
        Step::Latch(_) => "latch",
        Step::Grant { grant, .. } => match grant.action {
            Action::Bootstrap { .. } => "bootstrap",
            Action::Join { .. } => "join",
            Action::Resume { .. } => "resume",
            Action::Recover { .. } => "recover",
            Action::Restore { .. } => "refound",
        },
        Step::Fetch(_) => "fetch",
        Step::EndFetch { .. } => "end fetch",
        Step::AddLearner { .. } => "add",
        Step::UpdatePeer { .. } => "update",
        Step::Promote { .. } => "promote",
        Step::RemoveMember { .. } => "remove",
        Step::MoveLeader { .. } => "move",
        Step::RestartPod { .. } => "restart",
        Step::RetireMember { .. } => "retire",
        Step::DeleteClaim { .. } => "delete",
        Step::StopPod { .. } => "free",
        Step::Downgrade { .. } => "downgrade",
        Step::ExpandClaim { .. } => "expand",
        Step::OrphanPods { .. } => "orphan",
        Step::MarkRemoved { .. } => "tell",
        Step::RepeatGrant { .. } => "remind",
        Step::AddDebugContainer { .. } => "debug",
        Step::Compact { .. } => "compact",
        Step::Defragment { .. } => "defragment",
        Step::Disarm { .. } => "disarm",
        Step::IssueCertificates(_) => "issue",
        Step::RequestCertificate => "request",
        Step::RotateAuthority(_) => "rotate",
        Step::RefreshCertificates { .. } => "refresh",
        Step::ChangeAuth(_) => "auth",
    }
}
