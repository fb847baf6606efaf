"""Masking, drawing actions, and scoring the hand's cards."""

from __future__ import annotations

import json

import pytest
import torch

from undertake_training.config import CardSlots, ConfigError, Network
from undertake_training.network import (
    PolicyNetwork,
    Shape,
    build,
    find_slots,
    make_shape,
    shape_from_mapping,
    shape_to_mapping,
)


def network(features: int = 6, actions: int = 4) -> PolicyNetwork:
    return build(Shape(features, actions, (16, 8), 2), torch.full((features,), 0.1), seed=1)


def counts(rows: int, features: int = 6) -> torch.Tensor:
    return torch.randint(0, 10, (rows, features), generator=torch.Generator().manual_seed(2), dtype=torch.uint8)


def test_illegal_actions_have_probability_zero() -> None:
    mask = torch.tensor([[1, 0, 1, 0], [0, 1, 1, 1]], dtype=torch.int8)
    log_probs, value = network()(counts(2), mask)
    probabilities = log_probs.exp()
    assert (probabilities[mask == 0] == 0).all()
    assert probabilities.sum(dim=1).tolist() == pytest.approx([1, 1], abs=1e-6)
    assert value.shape == (2, 2)


def test_a_single_legal_action_is_certain_and_its_gradient_finite() -> None:
    net = network()
    mask = torch.tensor([[0, 0, 1, 0], [1, 1, 1, 1]], dtype=torch.int8)
    log_probs, value = net(counts(2), mask)
    assert log_probs[0, 2].item() == 0
    entropy = -(log_probs.exp() * log_probs).sum(dim=1)
    assert entropy[0].item() == 0
    (log_probs[:, 2].sum() + entropy.sum() + value.sum()).backward()
    assert all(torch.isfinite(p.grad).all() for p in net.parameters() if p.grad is not None)


def test_a_row_without_legal_actions_gives_no_nan() -> None:
    log_probs, _ = network()(counts(1), torch.zeros(1, 4, dtype=torch.int8))
    assert log_probs.exp()[0].tolist() == [0.25] * 4


def test_counts_and_scaled_observations_are_the_same_to_it() -> None:
    net, seen, mask = network(), counts(5), torch.ones(5, 4, dtype=torch.int8)
    for ours, theirs in zip(net(seen, mask), net(seen.float() * 0.1, mask), strict=True):
        assert torch.equal(ours, theirs)


def test_actions_are_drawn_by_their_probabilities_and_never_illegal() -> None:
    log_probs = torch.tensor([0.5, 0.3, 0.2]).log()
    log_probs = torch.cat([log_probs, torch.tensor([-1e9])]).repeat(20_000, 1)
    drawn = network().sample(log_probs, torch.Generator().manual_seed(5))
    shares = torch.bincount(drawn, minlength=4) / len(drawn)
    # three standard deviations of a share are at most 3 * sqrt(0.25 / 20,000) = 0.011
    assert shares.tolist() == pytest.approx([0.5, 0.3, 0.2, 0], abs=0.011)
    assert shares[3].item() == 0


def test_the_same_seed_gives_the_same_weights() -> None:
    first, second, other = (build(Shape(6, 4, (16,), 1), torch.ones(6), seed) for seed in (7, 7, 8))
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), second.parameters(), strict=True))
    assert not torch.equal(first.trunk[0].weight, other.trunk[0].weight)  # type: ignore[arg-type]


SLICES = {"rows": slice(0, 2), "hand_cards": slice(2, 5), "hand_costs": slice(5, 11)}
"""A small observation: two numbers, three slots, and two features more of each slot."""


def card_network() -> PolicyNetwork:
    settings = Network(hidden=(8,), card_slots=CardSlots(("hand_cards", "hand_costs"), slots=3, actions=9, hidden=8))
    net = build(make_shape(settings, SLICES, num_actions=12, values=1), torch.full((11,), 1 / 9), seed=3)
    with torch.no_grad():  # a fresh network is almost even, which hides differences
        net.slot_score.weight.mul_(100)
        net.policy.weight.mul_(100)
    return net


def hand(cards: list[int], costs: list[int]) -> torch.Tensor:
    return torch.tensor([[3, 4, *cards, *costs]], dtype=torch.uint8)


def test_each_card_of_the_hand_speaks_for_its_action() -> None:
    net = card_network()
    everything = torch.ones(1, 12, dtype=torch.int8)
    log_probs, _ = net(hand([4, 9, 0], [1, 2, 3, 4, 0, 0]), everything)
    probabilities = log_probs.exp()[0]
    assert probabilities.nonzero().flatten().tolist() == [3, 8, 9, 10, 11], "cards 4 and 9, and the three other actions"
    # The trunk is told the same by a network whose trunk sees nothing: then slots alone decide, wherever a card lies.
    with torch.no_grad():
        net.trunk[0].weight.zero_()  # type: ignore[operator]
    one = net(hand([4, 9, 0], [1, 2, 3, 4, 0, 0]), everything)[0]
    two = net(hand([9, 0, 4], [3, 4, 0, 0, 1, 2]), everything)[0]
    assert one[0].tolist() == pytest.approx(two[0].tolist())
    dearer = net(hand([4, 9, 0], [1, 2, 9, 9, 0, 0]), everything)[0]
    assert abs((dearer - one)[0, 8].item()) > 1e-3


def test_slots_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match="no slice 'hand_card'; did you mean 'hand_cards'"):
        find_slots(CardSlots(("hand_card",), slots=3), SLICES)
    with pytest.raises(ConfigError, match=r"slots: 4 is not allowed.*'hand_cards', which is 3"):
        find_slots(CardSlots(("hand_cards",), slots=4), SLICES)
    with pytest.raises(ConfigError, match="actions: 104 is not allowed, the game has 12 actions"):
        make_shape(Network(card_slots=CardSlots(("hand_cards",), slots=3)), SLICES, 12, 1)


def test_a_shape_survives_json() -> None:
    for shape in (card_network().shape, network().shape):
        assert shape_from_mapping(json.loads(json.dumps(shape_to_mapping(shape)))) == shape
