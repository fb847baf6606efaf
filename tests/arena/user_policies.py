"""Policies as a user would bring them, imported by name; observation slices by `undertake.core.game`."""

from typing import Any

import numpy as np

from undertake.core.game import get_game

SLICES = get_game("no_thanks").layouts["recall"].slices
PRICE, LOWEST_PRICE, HIGHEST_COUNT = SLICES["price"].start, -60, 95


def threshold_6(observation: np.ndarray, action_mask: np.ndarray) -> int:
    """The bot of that name from the observation alone: take iff D - pot <= 6, and where there is no chip."""
    price = round(float(observation[PRICE]) * HIGHEST_COUNT) + LOWEST_PRICE
    return int(price <= 6 or not action_mask[0])


class Batched:
    """The same, for B tables in one call."""

    batched = True
    game = "no_thanks"
    view = "recall"

    def act(self, observation: np.ndarray, action_mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        assert isinstance(rng, np.random.Generator)
        price = np.rint(observation[:, PRICE] * HIGHEST_COUNT) + LOWEST_PRICE
        return np.asarray((price <= 6) | (action_mask[:, 0] == 0), np.int64)


class Seeing:
    """The same from the view record."""

    sees = "view"

    def act(self, view: Any, action_mask: np.ndarray) -> int:
        return int(view.chips[0] == 0 or _change(int(view.cards[0]), int(view.card)) - view.pot <= 6)


def _change(cards: int, card: int) -> int:
    return (0 if cards >> (card - 1) & 1 else card) - (card + 1 if cards >> (card + 1) & 1 else 0)


class BatchedSeeing:
    """The same from B view records."""

    sees, batched = "view", True

    def act(self, views: Any, action_mask: np.ndarray) -> list[int]:
        return [Seeing().act(view, mask) for view, mask in zip(views, action_mask, strict=True)]


class Drawing:
    """Uniform over the legal actions of any game, by the generator it is given."""

    batched = True

    def act(self, observation: np.ndarray, action_mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.asarray((rng.random(action_mask.shape) * action_mask).argmax(axis=1))


def draw(observation: np.ndarray, action_mask: np.ndarray, rng: np.random.Generator) -> int:
    """The same for one table."""
    return int(rng.choice(np.flatnonzero(action_mask)))


class TableView(Drawing):
    """Made for the table view, wherever it sits."""

    view = "table"

    def act(self, observation: np.ndarray, action_mask: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        assert observation.shape[1] == get_game("no_thanks").layouts["table"].size
        return super().act(observation, action_mask, rng)


def waits(observation: np.ndarray, action_mask: np.ndarray) -> int:
    """Illegal in a match."""
    return 2


def talks(observation: np.ndarray, action_mask: np.ndarray) -> str:
    """No action at all."""
    return "pass"


class TooMany:
    """Returns probabilities where actions are wanted."""

    batched = True

    def act(self, observation: np.ndarray, action_mask: np.ndarray) -> np.ndarray:
        return np.asarray(action_mask / action_mask.sum(axis=1, keepdims=True))


def fails(observation: np.ndarray, action_mask: np.ndarray) -> int:
    """A mistake of the user's own."""
    raise ZeroDivisionError("no luck")


class NeedsArguments:
    """Cannot be made by name."""

    def __init__(self, path: str) -> None:
        self.path = path


class Interrupting:
    """Presses Ctrl-C at its call number `at`, counted over all of its tables."""

    at = -1
    calls = 0

    def act(self, observation: np.ndarray, action_mask: np.ndarray) -> int:
        Interrupting.calls += 1
        if Interrupting.calls == Interrupting.at:
            raise KeyboardInterrupt
        return threshold_6(observation, action_mask)


NUMBER = 7
