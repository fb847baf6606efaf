"""What both oracles share: the ranking of a table, the rewards that follow from it, and how agents are named.

Plain Python, written from RULES.md (leaving, equal scores) and from the reward formulas of DESIGN.md.
"""

from collections.abc import Collection, Sequence
from difflib import get_close_matches

VIEWS = ("table", "recall")
REWARDS = ("rank", "win", "score", "margin")


def agent(seat: int) -> str:
    """The agent's name at a seat: ``player_0`` and so on."""
    return f"player_{seat}"


def check_choice(what: str, given: str, allowed: Collection[str]) -> None:
    """Raise ValueError, naming the nearest allowed value, unless `given` is one of `allowed`."""
    if given in allowed:
        return
    near = get_close_matches(given, allowed, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"{what} is {given!r}, allowed are {', '.join(map(repr, allowed))}{hint}")


def check_range(what: str, given: int, lowest: int, highest: int) -> None:
    """Raise ValueError unless lowest <= given <= highest."""
    if not lowest <= given <= highest:
        raise ValueError(f"{what} is {given}, allowed are {lowest} to {highest}")


def ranks(scores: Sequence[int], leavers: Sequence[int]) -> list[float]:
    """Rank of each seat, 1 = best: the lowest score wins, equal scores share the mean of their places.

    `leavers` are the seats that resigned, in the order of leaving. They rank below all others, the earlier the lower,
    whatever their scores are.
    """
    num_players = len(scores)
    staying = [seat for seat in range(num_players) if seat not in leavers]
    result = [0.0] * num_players
    for seat in staying:
        better = [other for other in staying if scores[other] < scores[seat]]
        equal = [other for other in staying if scores[other] == scores[seat]]  # the seat itself among them
        places = [len(better) + 1 + i for i in range(len(equal))]
        result[seat] = sum(places) / len(places)
    for already_gone, seat in enumerate(leavers):
        result[seat] = float(num_players - already_gone)
    return result


def rewards(kind: str, scores: Sequence[int], leavers: Sequence[int]) -> list[float]:
    """Reward of each seat over the whole game, for a game that ends with these scores.

    `kind` is ``"rank"``, ``"win"``, ``"score"`` or ``"margin"`` (DESIGN.md, names that are fixed); n in the formulas is
    the number of seats at the start, leavers included. Raises ValueError for any other kind.
    """
    check_choice("reward", kind, REWARDS)
    num_players = len(scores)
    if kind == "rank":
        return [(num_players + 1 - 2 * rank) / (num_players - 1) for rank in ranks(scores, leavers)]
    if kind == "score":
        return [float(-score) for score in scores]
    if kind == "margin":
        return [(sum(scores) - own) / (num_players - 1) - own for own in scores]
    staying = [seat for seat in range(num_players) if seat not in leavers]
    lowest = min(scores[seat] for seat in staying)
    winners = [seat for seat in staying if scores[seat] == lowest]
    return [1 / len(winners) - 1 / num_players if seat in winners else -1 / num_players for seat in range(num_players)]
