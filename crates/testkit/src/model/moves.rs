//! What can be next, and what comes of it.

use std::sync::Arc;

use plan::observed::NodeState;
use plan::{Decision, Step, invariants};

use super::{Decide, Edit, Kind, Move, State, Story};
use crate::world::observe::{Blind, Look};
use crate::world::{Container, Kill, World};

/// Entries of one write: more than a learner may be behind.
const ENTRIES: u64 = 3000;

impl State {
    /// Every move that is possible.
    pub(super) fn moves(&self, story: &Story) -> Vec<Move> {
        let world = &self.world;
        let mut all: Vec<Move> = world.possible().into_iter().map(Move::Happens).collect();
        if story.out_of_turn.is_some() && self.out_of_turn == 0 {
            all.truncate(1);
        }
        all.push(Move::Operator);
        if self.late.is_some() {
            all.push(Move::ActLate);
        } else if self.looks > 0 {
            all.push(Move::Look);
        }
        if self.writes > 0 && world.small.contains_key("client") {
            all.push(Move::Write);
        }
        if !story.coarse && world.waits_seconds() {
            all.push(Move::Seconds);
        }
        if world.waits_minutes() {
            all.push(Move::Minutes);
        }
        if self.edits < story.edits.len() {
            all.push(Move::Edit);
        }
        let formed = world.object.status.cluster_id.is_some();
        if story.word && formed && !world.is_word_given() {
            all.push(Move::Word);
        }
        all.extend(silent(world).into_iter().map(Move::Back));
        if self.faults > 0 {
            let faults = story.kinds.iter().flat_map(|kind| self.faults_of(*kind));
            all.extend(faults);
        }
        all
    }

    /// Which ordinals a fault can hit; of the operator's own, at which of its writes.
    fn faults_of(&self, kind: Kind) -> Vec<Move> {
        let world = &self.world;
        let targets: Vec<u32> = match kind {
            Kind::Crash => {
                let pods = world.pods.iter();
                let runs = pods.filter(|(_, pod)| !matches!(pod.container, Container::Down));
                runs.map(|(n, _)| *n).collect()
            }
            Kind::DeletePod => {
                let pods = world.pods.iter().filter(|(_, pod)| !pod.terminating);
                pods.map(|(n, _)| *n).collect()
            }
            Kind::Empty | Kind::Damage | Kind::Break => {
                let claims = world.claims.iter();
                let data = claims.filter(|(_, claim)| {
                    let volume = &claim.volume;
                    volume.data.is_some() && !volume.damaged && !volume.broken
                });
                data.map(|(n, _)| *n).collect()
            }
            Kind::LoseClaim => {
                let claims = world.claims.iter().filter(|(_, claim)| !claim.terminating);
                claims.map(|(n, _)| *n).collect()
            }
            Kind::Silent | Kind::NodeGone => {
                let claims = world.claims.iter().filter(|(_, claim)| {
                    let node = claim.node.as_ref();
                    node.is_some_and(|node| {
                        let state = world.nodes.get(node).copied();
                        matches!(state, None | Some(NodeState::Ready))
                    })
                });
                claims.map(|(n, _)| *n).collect()
            }
            // How many writes a step has shows when it is taken.
            Kind::Killed => (1..=4).collect(),
            // No member gives the member list, or a pod does not respond.
            Kind::Blind => std::iter::once(u32::MAX)
                .chain(world.pods.keys().copied())
                .collect(),
        };
        targets.into_iter().map(|n| Move::Fault(kind, n)).collect()
    }

    /// What comes of a move; `None` where nothing does.
    pub(super) fn after(
        &self,
        story: &Story,
        what: Move,
        decide: Decide<'_>,
    ) -> Result<Option<Self>, String> {
        let mut next = self.clone();
        if let Move::Happens(happens) = what
            && self.world.possible().first() != Some(&happens)
        {
            next.out_of_turn = next.out_of_turn.saturating_sub(1);
        }
        match what {
            Move::Happens(happens) if story.coarse => next.world.happen_coarsely(happens),
            Move::Happens(happens) => next.world.happen(happens),
            Move::Operator => {
                let look = next.world.look_around(&Blind::default());
                next.operate(&look, story, decide)?;
            }
            Move::Look => {
                let look = next.world.look_around(&Blind::default());
                let decision = decide(&look.observed);
                if matches!(decision.step, Step::Nothing | Step::Wait | Step::Refuse) {
                    return Ok(None);
                }
                next.late = Some(Arc::new((look, decision)));
                next.looks = next.looks.saturating_sub(1);
            }
            Move::ActLate => {
                if let Some(late) = next.late.take() {
                    let (look, decision) = &*late;
                    next.carry_out(look, decision, story)?;
                }
            }
            Move::Write => next.write(),
            Move::Seconds => next.world.sleep(20),
            Move::Minutes => next.world.sleep(400),
            Move::Edit => next.edit(story),
            Move::Word => next.world.approve_recovery(),
            Move::Back(ordinal) => next.world.set_node(ordinal, NodeState::Ready),
            Move::Fault(kind, ordinal) => return next.fault(kind, ordinal, story, decide),
        }
        next.world.follow();
        next.verdict().map(|()| Some(next))
    }

    pub(super) fn verdict(&self) -> Result<(), String> {
        match self.world.violations.first() {
            None => Ok(()),
            Some(what) => Err(format!("harm: {what}")),
        }
    }

    fn write(&mut self) {
        let ids: Vec<u64> = self.world.clusters.keys().copied().collect();
        for id in ids {
            self.world.write(id, ENTRIES);
        }
        self.writes = self.writes.saturating_sub(1);
    }

    fn edit(&mut self, story: &Story) {
        match story.edits.get(self.edits) {
            Some(Edit::Size(size)) => self.world.resize(*size),
            Some(Edit::Pods(edit)) => self.world.edit(*edit),
            Some(Edit::Switch(to)) => self.world.switch(*to),
            Some(Edit::Rotate(value)) => self.world.rotate_by(value),
            Some(Edit::Auth(on)) => self.world.ask_auth(Some(*on)),
            None => {}
        }
        self.edits += 1;
    }

    /// Decides on a look, and acts.
    pub(super) fn operate(
        &mut self,
        look: &Look,
        story: &Story,
        decide: Decide<'_>,
    ) -> Result<Decision, String> {
        let decision = decide(&look.observed);
        self.carry_out(look, &decision, story)?;
        Ok(decision)
    }

    fn carry_out(&mut self, look: &Look, decision: &Decision, story: &Story) -> Result<(), String> {
        if let Some(forbidden) = &decision.forbidden {
            return Err(format!("forbidden: {forbidden:?}"));
        }
        let checked = invariants::check(&look.observed, &decision.step);
        if let (Err(violation), false) = (checked, story.unchecked) {
            return Err(format!("refused: {violation:?}: {:?}", decision.step));
        }
        if let Ok(outcome) = self.world.apply(look, decision) {
            // Killed while it reports: what it did is done.
            let _killed = self.world.report(look, decision, &outcome).is_err();
        }
        self.world.forget_words();
        Ok(())
    }

    fn fault(
        mut self,
        kind: Kind,
        ordinal: u32,
        story: &Story,
        decide: Decide<'_>,
    ) -> Result<Option<Self>, String> {
        self.faults = self.faults.saturating_sub(1);
        let world = &mut self.world;
        match kind {
            Kind::Crash => world.crash(ordinal),
            Kind::DeletePod => world.delete_pod(ordinal),
            Kind::Empty => world.empty_volume(ordinal),
            Kind::LoseClaim => world.lose_claim(ordinal),
            Kind::Damage => world.damage_volume(ordinal),
            Kind::Break => world.break_volume(ordinal),
            Kind::Silent => world.set_node(ordinal, NodeState::NotReady(world.now)),
            Kind::NodeGone => world.set_node(ordinal, NodeState::Deleted),
            Kind::Killed => {
                let at = world.writes + u64::from(ordinal);
                world.kill = Some(Kill {
                    at,
                    performed: true,
                });
                let look = world.look_around(&Blind::default());
                self.operate(&look, story, decide)?;
                self.world.kill = None;
                // An operator that is killed at its last write has done everything, and one that had fewer was not
                // killed.
                if self.world.writes < at {
                    return Ok(None);
                }
            }
            Kind::Blind => {
                let list = ordinal == u32::MAX;
                let pods = (!list).then_some(ordinal).into_iter().collect();
                let look = world.look_around(&Blind { pods, list });
                self.operate(&look, story, decide)?;
            }
        }
        self.world.follow();
        self.verdict().map(|()| Some(self))
    }
}

/// Ordinals whose node is silent.
pub(super) fn silent(world: &World) -> Vec<u32> {
    let on = world.claims.iter().filter(|(_, claim)| {
        let state = claim.node.as_ref().and_then(|node| world.nodes.get(node));
        matches!(state, Some(NodeState::NotReady(_)))
    });
    on.map(|(ordinal, _)| *ordinal).collect()
}
