"""Training tables: who sits where, bots that act by themselves, and what the critic is told."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from undertake.core.batch import make_batch
from undertake.core.game import get_game
from undertake_training import checkpoint, config
from undertake_training import run as runs
from undertake_training.config import Config, ConfigError, Network, Opponents
from undertake_training.opponents import Cast, make_cast
from undertake_training.rollout import SPARE
from undertake_training.tables import LEARNER, Tables, extra_scale

Array = npt.NDArray[Any]


def cast(game: str, *names: str) -> Cast:
    network = runs.start(Config(game=game, network=Network(hidden=(8,)), tables=2, steps=2)).network
    return make_cast(get_game(game), Opponents(policies=names), "recall", network)


def tables(
    game: str, *names: str, num_envs: int = 64, num_players: int = 4, fields: float = 0.0, mixed: float = 0.0
) -> Tables:
    length = {"length": "hand"} if game == "six_nimmt" else {}
    batch = make_batch(game, num_envs=num_envs, num_players=num_players, view="recall", observe=False, seed=7, **length)
    return Tables(batch, cast(game, *names), fields=fields, mixed=mixed, seed=11)


class Look:
    """What `Tables.look` writes, [B, ...]."""

    def __init__(self, at: Tables) -> None:
        batch = at.batch
        extra = len(extra_scale(batch.game, at.cast))
        self.observation = np.zeros((batch.num_envs + SPARE, batch.num_features), np.uint8)[: batch.num_envs]
        self.action_mask = np.zeros((batch.num_envs + SPARE, batch.num_actions), np.int8)[: batch.num_envs]
        self.extra = np.zeros((batch.num_envs, extra), np.uint8)
        at.look(self.observation, self.action_mask, self.extra)

    def random(self, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        return np.array([rng.choice(np.flatnonzero(mask)) for mask in self.action_mask], np.int64)


@pytest.mark.parametrize("game", ["no_thanks", "six_nimmt"])
def test_only_the_learner_is_asked_and_sees_what_its_seat_sees(game: str) -> None:
    at = tables(game, "random", fields=0.6, mixed=0.3)
    rng = np.random.default_rng(1)
    for _ in range(60):
        look = Look(at)
        assert (at.occupant == LEARNER).all()
        assert (at.seats[np.arange(64), at.seat] == LEARNER).all()
        assert np.array_equal(at.seat, at.batch.states.turn)
        observation, mask = at.batch.observe(at.seat)
        assert np.array_equal(look.observation, observation)
        assert np.array_equal(look.action_mask, mask)
        at.step(look.random(rng))


def test_shares_of_the_seatings() -> None:
    """Of 4,096 tables 50 % are fields of one opponent, 30 % mixed ones with 1 to 3 of them; 4.5 standard errors."""
    at = tables("no_thanks", "tuned", "random", "tuned", num_envs=4096, fields=0.5, mixed=0.3)
    others = (at.seats != LEARNER).sum(axis=1)
    # Three of one kind: all fields, and of the mixed tables with three opponents those that happen to agree.
    tuned, random = (at.seats == 0).sum(axis=1), (at.seats == 1).sum(axis=1)
    alike = ((tuned == 3) | (random == 3)).mean()
    assert alike == pytest.approx(0.5 + 0.1 * (8 / 27 + 1 / 27), abs=4.5 * 0.5 / 64)
    assert (others == 0).mean() == pytest.approx(0.2, abs=4.5 * 0.4 / 64)
    assert (others == 1).mean() == pytest.approx(0.1, abs=4.5 * 0.3 / 64)
    assert (others == 2).mean() == pytest.approx(0.1, abs=4.5 * 0.3 / 64)
    assert (tuned == 3).sum() / (random == 3).sum() == pytest.approx(2.0, abs=0.5), "named twice, drawn twice as often"
    seat = collections.Counter(int(np.flatnonzero(row == LEARNER)[0]) for row in at.seats[others == 3])
    assert min(seat.values()) > 0.2 * sum(seat.values()), "the learner's seat is drawn evenly"


@pytest.mark.parametrize("game", ["no_thanks", "six_nimmt"])
def test_scores_and_ends_are_those_of_the_game_the_step_played_in(game: str) -> None:
    """Bots may end the game and begin the next within a step: what is told of the old one must not be of the new."""
    at = tables(game, "random", "closest_gap" if game == "six_nimmt" else "threshold_3", fields=1.0)
    rng = np.random.default_rng(3)
    ended = 0
    for _ in range(120):
        before = at.standing.copy()
        at.step(Look(at).random(rng))
        standing = [[float(_score(game, state, seat)) for seat in range(4)] for state in at.batch.states]
        assert np.array_equal(at.standing, np.array(standing, np.float32))
        going = ~at.done
        assert np.array_equal(at.reached[going], at.standing[going])
        ended += int(at.done.sum())
        if game == "six_nimmt":
            assert (at.reached >= before).all(), "bulls only grow within a hand"
            assert (at.standing[at.done].sum(axis=1) <= 40).all()
        assert not at.pure.any()
    assert ended > 64


def _score(game: str, state: Any, seat: int) -> int:
    """From the table as plain data, by the rules' words: runs count their lowest card; bulls add up."""
    told = get_game(game).table(state)
    name = f"player_{seat}"
    if game == "six_nimmt":
        return int(told["bulls"][name] + told["totals"][name])
    cards = told["cards"][name]
    runs = sum(int(card) for card in cards if card - 1 not in cards)
    return runs - int(told["chips"][name])


def test_the_critic_is_told_the_deck_of_no_thanks() -> None:
    at = tables("no_thanks", "tuned", fields=0.5, num_players=3)
    slices = at.batch.game.hidden_layout.slices
    look = Look(at)
    for b, state in enumerate(at.batch.states):
        deck = at.batch.game.table(state)["deck"]
        row = look.extra[b]
        assert [card + 3 for card in np.flatnonzero(row[slices["comes"]])] == sorted(deck)
        assert [card + 3 for card in np.flatnonzero(row[slices["next_card"]])] == deck[:1]
        soon = row[slices["soon"]]
        assert sorted(deck, key=lambda card: -int(soon[card - 3])) == deck
        assert soon.max() == 33
        kinds = row[at.batch.game.hidden_layout.size :].reshape(7, 2)
        around = [int(at.seats[b, (at.seat[b] + i) % 3]) for i in range(3)]
        assert kinds.argmax(axis=1)[:3].tolist() == [who + 1 for who in around]
        assert kinds.sum(axis=1).tolist() == [1, 1, 1, 0, 0, 0, 0]


def test_the_critic_is_told_the_hands_of_six_nimmt() -> None:
    at = tables("six_nimmt", num_players=3)
    rng = np.random.default_rng(5)
    slices = at.batch.game.hidden_layout.slices
    for _ in range(5):
        at.step(Look(at).random(rng))
    look = Look(at)
    chosen = 0
    for b, state in enumerate(at.batch.states):
        told = at.batch.game.table(state)
        row = look.extra[b]
        others = [f"player_{(at.seat[b] + 1 + i) % 3}" for i in range(2)]
        hands = [told["hands"][name] for name in others]
        assert [card + 1 for card in np.flatnonzero(row[slices["others_cards"]])] == sorted(hands[0] + hands[1])
        ends = sorted(cards[-1] for cards in told["rows"])
        fit = row[slices["others_fit"]].reshape(9, 5)
        place = row[slices["others_place"]].reshape(9, 5)
        for i, (name, hand) in enumerate(zip(others, hands, strict=True)):
            assert fit[i].tolist() == [sum(sum(end < card for end in ends) == k for card in hand) for k in range(5)]
            card = told["chosen"][name] or 0
            assert row[slices["others_card"]][i] == card
            expected = [int(bool(card) and sum(end < card for end in ends) == k) for k in range(5)]
            assert place[i].tolist() == expected
            chosen += bool(card)
        assert not fit[2:].any()
    assert chosen > 0


def test_trained_opponents_come_to_the_surface_and_past_ones_change(tmp_path: Any) -> None:
    settings = Config(
        num_players=3,
        tables=32,
        steps=8,
        network=Network(hidden=(8,)),
        opponents=Opponents(policies=("past",), fields=1.0, mixed=0.0, past_every=1, past_kept=2),
    )
    run = runs.start(settings)
    runs.save(run, tmp_path)
    look = Look(run.groups[0].tables)
    del look
    assert {*run.groups[0].tables.occupant.tolist()} == {LEARNER, 0}
    frozen = config.from_mapping(
        {
            **config.to_mapping(settings),
            "opponents": {"policies": [f"checkpoint:{tmp_path}"], "fields": 1.0, "mixed": 0.0},
        }
    )
    fixed = runs.start(frozen).cast.networks[0]
    assert all(torch.equal(a, b) for a, b in zip(fixed.parameters(), run.network.parameters(), strict=True))
    past = run.cast.past
    assert past is not None
    generator = torch.Generator().manual_seed(0)
    for value in (1.0, 2.0, 3.0):
        with torch.no_grad():
            run.network.policy.bias.fill_(value)
        past.add(run.network, 2, generator)
    kept = {float(weights["policy.bias"][0]) for weights in past.weights}
    assert len(kept) == 2
    assert 3.0 in kept
    drawn = set()
    for _ in range(20):
        past.draw(run.network, generator)
        drawn.add(float(past.network.policy.bias[0]))
    assert drawn == kept


def test_a_size_that_is_named_twice_has_twice_the_tables() -> None:
    run = runs.start(Config(tables=10, steps=2, other_sizes=(3, 5, 5), other_tables=0.6))
    assert [(group.tables.batch.num_players, group.tables.batch.num_envs) for group in run.groups] == [
        (4, 4),
        (3, 2),
        (5, 4),
    ]


def test_opponents_that_cannot_be_are_refused(tmp_path: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"opponents\.policies: No Thanks! has no bot 'tunde'; did you mean 'tuned'\?"
    ):
        cast("no_thanks", "tunde")
    with pytest.raises(checkpoint.CheckpointError, match="there is no such file"):
        cast("no_thanks", f"checkpoint:{tmp_path}/none.safetensors")
    with pytest.raises(ConfigError, match=r"opponents\.mixed: 0\.5 is not allowed, 0\.0 to 0\.3"):
        config.check(Config(opponents=Opponents(fields=0.7, mixed=0.5)))
    with pytest.raises(ConfigError, match="other_sizes"):
        config.check(Config(num_players=4, other_sizes=(3, 4)))
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="torch finds no GPU here"):
            runs.start(Config(device="cuda"))
