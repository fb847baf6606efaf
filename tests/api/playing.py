"""What the tests of the faces share: both games by name, ways to play, and two small games worked out by hand."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from undertake import no_thanks_v0, six_nimmt_v0

MODULES: dict[str, Any] = {"no_thanks": no_thanks_v0, "six_nimmt": six_nimmt_v0}
WAIT = {"no_thanks": 2, "six_nimmt": 108}
PASS, TAKE = 0, 1
every_game = pytest.mark.parametrize("game", list(MODULES))

# player_0 takes 5 for nothing and passes 3, which player_1 takes with one chip; 6 goes round and player_2 takes it with
# four. In the end player_0 has 5 and no chip, player_1 has 3 and one chip, player_2 has 6 and five chips: 5, 2, 1.
THREE: dict[str, Any] = {"num_players": 3, "lowest": 3, "highest": 6, "removed": 1, "chips": 2}
THREE_DEAL: dict[str, Any] = {"deck": [5, 3, 6, 4], "first_player": 0}
THREE_MOVES = [TAKE, PASS, TAKE, PASS, PASS, PASS, PASS, TAKE]

# The hands are 2 5 and 1 4, the row begins with 3. player_1's 1 is too low and takes the 3 (one bull), 5 follows; then
# player_0's 2 is too low and takes 1 and 5 (1 + 2 bulls), 4 follows. Scores: 3 and 1.
PAIR: dict[str, Any] = {"num_players": 2, "length": "hand", "hand_size": 2, "num_rows": 1, "deck": "reduced"}
PAIR_DEAL: dict[str, Any] = {"deck": [5, 2, 4, 1, 3]}
PAIR_MOVES = [4, 0, 104, 1, 3, 104]


def legal(observation: Mapping[str, Any]) -> list[int]:
    return np.flatnonzero(observation["action_mask"]).tolist()


def play_on(env: Any, rng: np.random.Generator, decisions: int = 10**6) -> None:
    """Random legal play of an AEC environment for so many decisions, or to the end; the dead are not stepped."""
    for _ in range(decisions):
        if env.terminations[env.agent_selection]:
            return
        env.step(int(rng.choice(legal(env.observe(env.agent_selection)))))


def play_moves(env: Any, actions: list[int]) -> None:
    for action in actions:
        env.step(action)


def waiting(parallel: Any, game: str) -> dict[str, int]:
    """A legal action for each agent: the default one."""
    return {agent: parallel.default_action(agent) for agent in parallel.agents}
