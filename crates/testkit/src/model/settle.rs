//! No more faults: everything that can happen does, the operator looks whenever nothing else moves, and time passes
//! where that helps. This must end as asked for, or where a person has to decide and is told so; and once that person
//! has, it must end as asked for.

use std::collections::BTreeSet;

use api::Reason;
use plan::{Decision, Step, Why};

use super::moves::silent;
use super::{Decide, State, Story};
use crate::world::observe::Blind;
use plan::observed::NodeState;

/// Rounds of everything that can happen before the operator looks.
const PASSES: usize = 6;
/// Moves after which nothing is believed to come of it.
const BOUND: usize = 3000;

impl State {
    /// Runs until it rests or comes to a world that is known to end well; the worlds on the way. `known` is asked for
    /// worlds that ended well before.
    pub(super) fn settle(
        mut self,
        story: &Story,
        decide: Decide<'_>,
        known: &dyn Fn(u64) -> bool,
    ) -> Result<Vec<u64>, String> {
        (self.late, self.faults, self.looks) = (None, 0, 0);
        (self.writes, self.edits, self.out_of_turn) = (0, 0, 0);
        let (mut way, mut met) = (Vec::new(), BTreeSet::new());
        let mut told = Vec::new();
        for _ in 0..BOUND {
            let code = self.code();
            if known(code) {
                return Ok(way);
            }
            if !met.insert(code) {
                return Err(format!("goes in circles: {told:?}"));
            }
            way.push(code);
            if let Some(decision) = self.advance(story, decide)? {
                told.push(decision.why.to_string());
                if self.rests(&decision)? {
                    return Ok(way);
                }
            }
        }
        Err(format!("never rests: {told:?}"))
    }

    /// The next thing that happens; what the operator says where nothing does.
    fn advance(&mut self, story: &Story, decide: Decide<'_>) -> Result<Option<Decision>, String> {
        let before = self.code();
        // A process that ends again and again has no end of moves.
        for _ in 0..PASSES {
            for what in self.world.possible() {
                if self.world.possible().contains(&what) {
                    self.world.happen(what);
                }
            }
        }
        self.verdict()?;
        let look = self.world.look_around(&Blind::default());
        let decision = self.operate(&look, story, decide)?;
        self.world.follow();
        self.verdict()?;
        for seconds in [0, 20, 400] {
            self.world.sleep(seconds);
            if self.code() != before {
                return Ok(None);
            }
        }
        Ok(Some(decision))
    }

    /// Nothing moves any more. Where that is as asked for it is the end; where it is for a person to go on, that
    /// person does.
    fn rests(&mut self, decision: &Decision) -> Result<bool, String> {
        let world = &mut self.world;
        let size = usize::try_from(world.object.size).unwrap_or(0);
        let still = decision.step == Step::Nothing && decision.reason() == Reason::AsExpected;
        if still && world.healthy_voters() == size {
            world.check_writes();
            world.check_arrived();
            return self.verdict().map(|()| true);
        }
        // A change that does not come up is taken back.
        if decision.reason() == Reason::RolloutHalted && world.object.edit != 0 {
            world.edit(0);
            return Ok(false);
        }
        // A cluster that has not formed has nothing to lose, and no user says that a node will not come back.
        let young = world.object.status.cluster_id.is_none();
        let begins = matches!(
            decision.reason(),
            Reason::StartingPods | Reason::Bootstrapping
        );
        let lost = matches!(
            decision.reason(),
            Reason::QuorumLost | Reason::EtcdUnreachable | Reason::Recovering
        );
        if !(young && begins || lost && !world.can_have_quorum()) {
            let (reason, why) = (decision.reason(), &decision.why);
            return Err(format!("stuck: {reason:?}: {why}\n{world:#?}"));
        }
        // Nodes come back before any member is given up.
        let silent = silent(world);
        if !silent.is_empty() {
            for ordinal in silent {
                world.set_node(ordinal, NodeState::Ready);
            }
            world.follow();
            return Ok(false);
        }
        if young {
            return world.give_up_useless().then_some(false).ok_or_else(|| {
                let why = &decision.why;
                format!("stuck before it has formed: {why}\n{world:#?}")
            });
        }
        if !world.is_word_given() {
            world.approve_recovery();
            return Ok(false);
        }
        // A survivor that is of no use is given up, as the condition says.
        let useless = match &decision.why {
            Why::Recovery(why) => why.can_give_up_survivor(),
            _other => false,
        };
        if useless && world.give_up_chosen() {
            return Ok(false);
        }
        // Where nothing is left that can be used, nothing more can be asked for.
        if world.has_remains() {
            return Err(format!(
                "stuck after the word: {}\n{world:#?}",
                decision.why
            ));
        }
        Ok(true)
    }
}
