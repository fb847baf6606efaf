"""Exact values of small games: perfect play, and what a best response wins against a policy.

    undertake.exact.solve("no_thanks", highest=8, removed=1, chips=3).value              # -0.8264
    undertake.exact.best_response("no_thanks", "tuned", highest=8, removed=1, chips=3)
    undertake.exact.best_response("six_nimmt", "random", num_cards=6, hand_size=2, num_rows=1, row_size=2).nash_conv

All is played by the games' own compiled rules, on all of a game's positions at once. `docs/exact.md` tells the method.
"""

from __future__ import annotations

from typing import Any

from undertake.core.game import REWARDS, VIEWS, check_choice, get_game, make_options
from undertake.exact.policy import Chances, Probabilities, chances
from undertake.exact.positions import Solution, build, response_value, solution
from undertake.exact.response import Response
from undertake.exact.tree import tree_response

__all__ = ["Probabilities", "Response", "Solution", "best_response", "solve"]


def solve(game: str, *, reward: str = "margin", **options: Any) -> Solution:
    """Perfect play of No Thanks! for two, whose public positions hide nothing that anybody knows.

    Args:
        game: "no_thanks".
        reward: what is played for; the score of one alone is no zero-sum game and is refused.
        options: as of `no_thanks_v0.env`; `num_players` is 2.

    Raises ValueError or TypeError in one line for what cannot be solved.
    """
    check_choice("the game to be solved", game, ("no_thanks",))
    check_choice("reward", reward, tuple(name for name in REWARDS if name != "score"))
    rules = get_game(game)
    chosen = make_options(rules, {"num_players": 2, **options})
    if chosen.num_players != 2:
        raise ValueError(f"num_players is {chosen.num_players}; perfect play is that of 2")
    return solution(rules, chosen, REWARDS.index(reward))


def best_response(game: str, policy: Any, *, reward: str = "margin", view: str = "recall", **options: Any) -> Response:
    """What a player who knows `policy`, and that all others play it, can win at most, from every seat.

    The responder knows all that a player with a perfect memory knows, and no more. In No Thanks! player_0 begins.

    Args:
        game: "no_thanks" or "six_nimmt".
        policy: as for `undertake.make_policy`, if it never draws at random ("random" itself may), or anything with a
            method `probabilities(observation, action_mask)`; see `Probabilities`.
        reward: what is played for.
        view: what a policy is shown that does not say for which view it was made.
        options: as of the game's environment; `num_players` is 2 and `length` "hand" unless said otherwise.

    Raises ValueError or TypeError in one line for a game too large, and PolicyError for a policy that does not fit.
    """
    rules = get_game(game)
    check_choice("reward", reward, REWARDS)
    check_choice("view", view, VIEWS)
    own = {"num_players": 2, **({"length": "hand"} if game == "six_nimmt" else {}), **options}
    chosen, kind = make_options(rules, own), REWARDS.index(reward)
    plays = chances(policy, rules, view)
    if game == "six_nimmt":
        return tree_response(rules, chosen, plays, kind)
    players = chosen.num_players
    everyone: list[Chances | None] = [plays] * players
    forget = plays.view == "table"
    on_policy = build(rules, chosen, everyone, kind, forget)
    values, best = [], []
    for seat in range(players):
        values.append(response_value(on_policy, seat))
        others = [None if other == seat else plays for other in range(players)]
        best.append(response_value(build(rules, chosen, others, kind, forget), seat))
    return Response(tuple(values), tuple(best))
