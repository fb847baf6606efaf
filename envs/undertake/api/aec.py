"""The AEC face: one decision at a time, by `agent_selection`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
from pettingzoo import AECEnv

from undertake.api.face import Face, Observation
from undertake.core.batch import illegal_message
from undertake.core.game import ILLEGAL, Game, check_choice

__all__ = ["AECFace"]


class AECFace(Face, AECEnv):  # type: ignore[misc]
    """A PettingZoo AEC environment of one table.

    `illegal` says what an illegal action does: "terminate" (the game ends for all, the offender alone is paid, no more
    than the worst return of honest play), "raise" (ValueError, nothing is played) or "random" (a random legal action
    is played instead). None makes the raw environment: an illegal action raises, and the order of calls is not
    checked. The checks are built in because PettingZoo's wrappers for them cost several times what the game does.

    The mask of an agent is all zeros unless the agent is to act.
    """

    def __init__(
        self,
        game: Game,
        options: Any,
        *,
        view: str = "table",
        reward: str = "rank",
        render_mode: str | None = None,
        illegal: str | None = "terminate",
    ) -> None:
        if illegal is not None:
            check_choice("illegal", illegal, ILLEGAL)
        super().__init__(game, options, view, reward, render_mode)
        self._illegal, self._checked = illegal, illegal is not None
        self._moved = True

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """Deal a new game.

        `seed` (a whole number from 0) starts the random stream anew; without one it goes on, and the first time it
        comes from the system. `options` may hold "deck" and "first_player", which fix the deal; other keys are
        ignored. Raises ValueError or TypeError in one line for a seed, deck or player that cannot be; then the
        running game is as it was.
        """
        turn = self._deal(seed, options)
        self.agents = self.possible_agents[:]
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self._skip_agent_selection = None
        self.agent_selection = self.possible_agents[turn]
        self._after_move()

    def observe(self, agent: str) -> Observation:
        """What any agent may know, at any time: `{"observation": float32 [D], "action_mask": int8 [N]}`."""
        if not self._dealt:
            self._need_reset("observe")
        observation, mask = self._see(self._seat(agent))
        if agent != self.agent_selection:
            mask[:] = 0
        return {"observation": observation, "action_mask": mask}

    def step(self, action: int | None) -> None:
        """Play an action of `agent_selection`; None for one that is out of the game.

        Raises TypeError for an action that is not a whole number; for illegal ones see the class.
        """
        if self._checked:
            if not self._dealt:
                self._need_reset("step")
            self._moved = True
            if not self.agents:
                gymnasium.logger.warn("step() does nothing after the end of the game; call reset() first")
                return
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        played, turn = self._play(self._whole(action, agent), self._illegal == "random")
        if played < 0:
            if self._illegal != "terminate":
                _, mask = self._see(self._seats[agent])
                raise ValueError(f"{agent}: {illegal_message(self.game, int(action or 0), mask)}")
            self._foul([self._seats[agent]])
            turn = -1
        self._cumulative_rewards[agent] = 0.0
        self._settle(turn)
        self._after_move()

    def resign(self, agent: str) -> None:
        """Let an agent leave the game, whether or not it is to act; call it between two steps.

        The agent is terminated and paid at once, and is selected next, to be stepped with None; after it the game
        goes on with the agent to act. If one agent remains, the game ends for all. Raises ValueError for an agent
        that is out already.
        """
        turn = self._leave(agent)
        self.terminations[agent] = True
        self._settle(turn)
        if turn >= 0:
            self._deads_step_first()
        self._moved = True
        self._after_move()

    def agent_iter(self, max_iter: int = 2**63) -> Iterator[str]:
        """`agent_selection` again and again, until all agents are gone; step in between."""
        if self._checked:
            self._need_reset("agent_iter")
        return self._turns(max_iter)

    def _turns(self, max_iter: int) -> Iterator[str]:
        self._moved = True
        while self.agents and max_iter > 0:
            if self._checked and not self._moved:
                raise AssertionError("need to call step() or reset() in a loop over `agent_iter`")
            self._moved = False
            max_iter -= 1
            yield self.agent_selection

    def _settle(self, turn: int) -> None:
        """Hand out the rewards of a decision and select who is next."""
        rewards = self._told[0].tolist()
        if any(rewards):
            self.rewards = {agent: rewards[self._seats[agent]] for agent in self.agents}
            self._accumulate_rewards()
        else:
            self.rewards = dict.fromkeys(self.agents, 0.0)
        if turn < 0:
            self.terminations = dict.fromkeys(self.agents, True)
            self._deads_step_first()
        else:
            self.agent_selection = self.possible_agents[turn]

    def _after_move(self) -> None:
        scores = self._told[1].tolist()
        if len(self.agents) < len(scores):
            scores = [scores[self._seats[agent]] for agent in self.agents]
        self.infos = {agent: {"score": score} for agent, score in zip(self.agents, scores, strict=True)}
        if self.render_mode == "human":
            self.render()
