"""The Parallel face: all agents act in every step, those with nothing to decide by waiting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pettingzoo import ParallelEnv

from undertake.api.face import Face, Observation
from undertake.core.batch import illegal_message
from undertake.core.game import ILLEGAL, Game, check_choice, check_names

__all__ = ["ParallelFace", "Step"]

Step = tuple[dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, float]]]
"""Observations, rewards, terminations, truncations and infos, by agent."""


class ParallelFace(Face, ParallelEnv):  # type: ignore[misc]
    """A PettingZoo Parallel environment of one table.

    Every step takes an action of each agent. Those that have a decision to make make it at the same time, the others
    play *wait*, the only action their mask allows. `illegal` says what an illegal action does, a decision instead of
    *wait* and the other way round included: "terminate" (nothing is played, the game ends for all, and each offender
    is paid no more than the worst return of honest play, the others nothing), "raise" (ValueError, nothing is played)
    or "random" (a random legal action is played instead).
    """

    def __init__(
        self,
        game: Game,
        options: Any,
        *,
        view: str = "table",
        reward: str = "rank",
        render_mode: str | None = None,
        illegal: str = "terminate",
    ) -> None:
        check_choice("illegal", illegal, ILLEGAL)
        super().__init__(game, options, view, reward, render_mode)
        self._illegal = illegal

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, float]]]:
        """Deal a new game; returns observations and infos by agent.

        `seed` (a whole number from 0) starts the random stream anew; without one it goes on, and the first time it
        comes from the system. `options` may hold "deck" and "first_player", which fix the deal; other keys are
        ignored. Raises ValueError or TypeError in one line for a seed, deck or player that cannot be; then the
        running game is as it was.
        """
        self._deal(seed, options)
        self.agents = self.possible_agents[:]
        observations, _, _, _, infos = self._results(self.agents)
        return observations, infos

    def observe(self, agent: str) -> Observation:
        """What any agent may know, at any time: `{"observation": float32 [D], "action_mask": int8 [N]}`."""
        self._need_reset("observe")
        observation, mask = self._see(self._seat(agent))
        if not mask.any():
            mask[self.game.wait] = 1
        return {"observation": observation, "action_mask": mask}

    def step(self, actions: Mapping[str, Any]) -> Step:
        """Play one action of each agent; returns observations, rewards, terminations, truncations and infos by agent.

        Raises ValueError where an agent's action is missing or a name is no agent's, TypeError for an action that is
        not a whole number; for illegal ones see the class. After the end, where no agent is left, it does nothing
        and returns empty dicts.
        """
        agents = self.agents
        if not agents:
            return {}, {}, {}, {}, {}
        chosen = self._read(actions)
        _, masks = self._see_all()
        deciding = np.flatnonzero(masks.any(axis=1)).tolist()
        offenders = []
        for agent, action in chosen.items():
            seat = self._seats[agent]
            if action < 0 or (masks[seat, action] == 0 if seat in deciding else action != self.game.wait):
                offenders.append(agent)
        if offenders and self._illegal == "raise":
            agent = offenders[0]
            mask = self.observe(agent)["action_mask"]
            raise ValueError(f"{agent}: {illegal_message(self.game, int(actions[agent]), mask)}")
        if offenders and self._illegal == "terminate":
            self._foul([self._seats[agent] for agent in offenders])
            return self._finish(agents, over=True)
        # Decisions of one step are made without knowledge of each other, so the seats can be asked in their order.
        total = self._told[0] * 0
        turn = 0
        for agent, action in chosen.items():
            if self._seats[agent] in deciding:
                _, turn = self._play(action, True)
                total += self._told[0]
        self._told[0] = total
        return self._finish(agents, over=turn < 0)

    def resign(self, agent: str) -> Step:
        """Let an agent leave the game; returns what `step` does, as if all others had waited.

        The agent is terminated and paid, and no longer among `agents`. If one agent remains, the game ends for all.
        Raises ValueError for an agent that is out already.
        """
        agents = self.agents if self._dealt else []
        turn = self._leave(agent)
        return self._finish(agents, over=turn < 0, left=agent)

    def default_action(self, agent: str) -> int:
        """What is played for an agent that overruns its time: *wait* where it has nothing to decide.

        Raises ValueError for an agent that is out of the game.
        """
        self._need_reset("default_action")
        if self._see(self._seat(agent))[1].any():
            return super().default_action(agent)
        if agent not in self.agents:
            raise ValueError(f"{agent} has nothing to decide: it is out of the game")
        return self.game.wait

    def _read(self, actions: Mapping[str, Any]) -> dict[str, int]:
        """The actions of the agents in their order, -1 for one that is out of range."""
        if not isinstance(actions, Mapping):
            raise TypeError(f"actions is {actions!r}; a dict of each agent's action is needed")
        missing = [agent for agent in self.agents if agent not in actions]
        if missing:
            raise ValueError(f"no action is given for {', '.join(missing)}; each of the agents needs one")
        if len(actions) > len(self.agents):
            check_names("agent", actions, self.possible_agents)
        return {agent: self._whole(actions[agent], agent) for agent in self.agents}

    def _finish(self, agents: list[str], over: bool, left: str | None = None) -> Step:
        """The results of a step for those who were in the game when it began."""
        self.agents = [] if over else [agent for agent in agents if agent != left]
        return self._results(agents)

    def _results(self, agents: list[str]) -> Step:
        rewards, scores = self._told.tolist()
        seats = self._seats
        seen, masks = self._see_all()
        masks[~masks.any(axis=1), self.game.wait] = 1
        observations = {
            agent: {"observation": seen[seats[agent]], "action_mask": masks[seats[agent]]} for agent in agents
        }
        live = set(self.agents)
        result: Step = (
            observations,
            {agent: rewards[seats[agent]] for agent in agents},
            {agent: agent not in live for agent in agents},
            dict.fromkeys(agents, False),
            {agent: {"score": scores[seats[agent]]} for agent in agents},
        )
        if self.render_mode == "human":
            self.render()
        return result
