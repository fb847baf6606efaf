"""The policy and value network.

Letters: B decisions, D features, N actions, K values (one a reward), S card slots, F features a slot.

The network knows no game. It is built from a `Shape`: numbers of features and actions, the scale of each feature and,
where cards of a hand are scored one by one, where in the observation their slots lie.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from undertake_training.config import CardSlots, ConfigError, Network

__all__ = [
    "Critic",
    "PolicyNetwork",
    "Shape",
    "Slots",
    "build",
    "build_critic",
    "find_slots",
    "make_shape",
    "shape_from_mapping",
    "shape_to_mapping",
]

MASKED = -1e9
"""Logit of an action that is not legal: its probability is exactly 0, and unlike -inf it makes no NaN in a gradient."""

MAX_GAIN = 30.0


@dataclass(frozen=True)
class Slots:
    """Where the features of the hand's cards lie in the observation, and how wide the network that scores them is.

    Each `(start, stop)` of `ranges` holds its features slot by slot; a slot's very first number is its card's.
    """

    ranges: tuple[tuple[int, int], ...]
    slots: int
    actions: int
    hidden: int

    @property
    def features(self) -> int:
        """F, the features of one slot."""
        return sum(stop - start for start, stop in self.ranges) // self.slots


@dataclass(frozen=True)
class Shape:
    """All that fixes the tensors of a `PolicyNetwork`."""

    num_features: int
    num_actions: int
    hidden: tuple[int, ...]
    num_values: int = 1
    slots: Slots | None = None


def find_slots(settings: CardSlots, slices: Mapping[str, slice]) -> Slots | None:
    """Where the configured slots lie in an observation made of `slices` (by name); None if no slots are configured.

    Raises:
        ConfigError: no slice has that name, or its length is no multiple of the number of slots.
    """
    ranges = []
    for name in settings.slices:
        if name not in slices:
            near = difflib.get_close_matches(name, slices, 1, 0.0)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"network.card_slots.slices: the observation has no slice {name!r}{hint}")
        start, stop = slices[name].start, slices[name].stop
        if (stop - start) % settings.slots:
            raise ConfigError(
                f"network.card_slots.slots: {settings.slots} is not allowed, "
                f"it must divide the length of slice {name!r}, which is {stop - start}"
            )
        ranges.append((start, stop))
    return Slots(tuple(ranges), settings.slots, settings.actions, settings.hidden) if ranges else None


class PolicyNetwork(nn.Module):
    """One trunk with a policy head and a value head; ReLU between layers.

    The observation is `[B, D]`, either uint8 counts as the batch engine writes them, which are scaled here, or float32
    in [0, 1] as the environments give them. `calibrate` fits the first step to what observations look like, which many
    features of small range need: the difference of two prices, say, is a hundredth of the scale.
    """

    scale: Tensor
    centre: Tensor
    gain: Tensor

    def __init__(self, shape: Shape, scale: Tensor) -> None:
        super().__init__()
        self.shape = shape
        self.register_buffer("scale", scale.detach().clone().to(torch.float32))
        self.register_buffer("centre", torch.zeros(shape.num_features))
        self.register_buffer("gain", torch.ones(shape.num_features))
        widths = (shape.num_features, *shape.hidden)
        self.trunk = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(widths))
        slots = shape.slots
        self.policy = nn.Linear(widths[-1], shape.num_actions - (slots.actions if slots else 0))
        self.value = nn.Linear(widths[-1], shape.num_values)
        if slots:
            self.slot_features = nn.Linear(slots.features, slots.hidden)
            self.slot_context = nn.Linear(widths[-1], slots.hidden, bias=False)
            self.slot_hidden = nn.Linear(slots.hidden, slots.hidden)
            self.slot_score = nn.Linear(slots.hidden, 1)

    def forward(self, observation: Tensor, action_mask: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities `[B, N]` of the actions and values `[B, K]`; an action that is not legal has probability 0.

        `action_mask` is `[B, N]`, non-zero where legal. A row without any legal action gives even probabilities.
        """
        return self.look(observation, action_mask)[:2]

    def look(self, observation: Tensor, action_mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Log-probabilities and values as `forward` gives them, and what the trunk makes of the observation."""
        exact = observation.dtype == torch.uint8
        counts = observation.to(self.gain.dtype) if exact else (observation / self.scale).round()
        factor = self.gain * self.scale
        shift = self.centre * self.gain
        # The preparation moved into the first layer's weights, which are fewer than the numbers.
        first = self.trunk[0]
        assert isinstance(first, nn.Linear)
        hidden = torch.relu(nn.functional.linear(counts, first.weight * factor, first.bias - first.weight @ shift))
        for layer in self.trunk[1:]:
            hidden = torch.relu(layer(hidden))
        logits = self.policy(hidden)
        if self.shape.slots:
            logits = self._with_cards(counts, hidden, logits, self.shape.slots)
        logits = logits.masked_fill(action_mask == 0, MASKED)
        return torch.log_softmax(logits, dim=-1), self.value(hidden), hidden

    def _with_cards(self, counts: Tensor, hidden: Tensor, others: Tensor, slots: Slots) -> Tensor:
        """Logits `[B, N]`: every card in a slot has that slot's score, cards not in hand have `MASKED`."""
        start, stop = slots.ranges[0]
        number = counts[:, start : stop : (stop - start) // slots.slots].long()  # [B, S], 0 for an empty slot
        factor, shift = self.gain * self.scale, self.gain * self.centre
        parts = [
            (counts[:, a:b] * factor[a:b] - shift[a:b]).reshape(len(counts), slots.slots, -1) for a, b in slots.ranges
        ]
        cards = torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]  # [B, S, F]
        # The first layer over (slot, trunk) as a sum of two: the trunk's part is computed once and not once a slot.
        inner = torch.relu(self.slot_features(cards) + self.slot_context(hidden).unsqueeze(1))
        score = self.slot_score(torch.relu(self.slot_hidden(inner))).squeeze(-1)  # [B, S]
        # An empty slot writes to a spare column in front, so that card c lies in column c.
        logits = score.new_full((len(score), slots.actions + 1), MASKED)
        logits = logits.scatter(1, number.clamp(0, slots.actions), score)
        return torch.cat([logits[:, 1:], others], dim=1)

    @torch.no_grad()
    def calibrate(self, observation: Tensor) -> None:
        """Centre each feature and bring it to a spread of 1 over the sample uint8 `[B, D]`; slots are taken together.

        A rare or nearly constant feature is amplified by `MAX_GAIN` at most, one that never changes not at all.
        """
        plain = observation * self.scale
        mean, spread = plain.mean(dim=0), plain.std(dim=0)
        if slots := self.shape.slots:
            for start, stop in slots.ranges:
                cards = plain[:, start:stop].reshape(len(plain) * slots.slots, -1)
                mean[start:stop] = cards.mean(dim=0).repeat(slots.slots)
                spread[start:stop] = cards.std(dim=0).repeat(slots.slots)
        self.centre.copy_(mean)
        self.gain.copy_(torch.where(spread > 0, (1 / spread).clamp_max(MAX_GAIN), 1.0))

    def sample(self, log_probs: Tensor, generator: torch.Generator) -> Tensor:
        """Draw actions `[B]` from log-probabilities `[B, N]`, by adding Gumbel noise and taking the largest."""
        noise = torch.empty(log_probs.shape).exponential_(generator=generator).clamp_min_(1e-20)
        return (log_probs - noise.log().to(log_probs.device)).argmax(dim=-1)

    def tensors(self) -> dict[str, Tensor]:
        """The weights by name, ready to be saved."""
        return {name: tensor.detach().cpu().contiguous() for name, tensor in self.state_dict().items()}


class Critic(nn.Module):
    """Values `[B, K]` that know more than the policy: a help in training alone.

    Its input is what the policy's trunk makes of the observation `[B, W]` and, beside it, E numbers uint8 `[B, E]`,
    times `scale`: what the view hides and who sits where.
    """

    scale: Tensor

    def __init__(self, width: int, scale: Tensor, hidden: tuple[int, ...], num_values: int) -> None:
        super().__init__()
        self.register_buffer("scale", scale.detach().clone().to(torch.float32))
        self.seen = nn.Linear(width, hidden[0])
        self.extra = nn.Linear(len(scale), hidden[0], bias=False)
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(hidden))
        self.value = nn.Linear(hidden[-1], num_values)

    def forward(self, trunk: Tensor, extra: Tensor) -> Tensor:
        """Values `[B, K]`."""
        more = nn.functional.linear(extra.to(self.scale.dtype), self.extra.weight * self.scale)
        hidden = torch.relu(self.seen(trunk) + more)
        for layer in self.layers:
            hidden = torch.relu(layer(hidden))
        values: Tensor = self.value(hidden)
        return values


def build_critic(width: int, scale: Tensor, hidden: tuple[int, ...], num_values: int, seed: int) -> Critic:
    """A critic with fresh weights drawn from `seed`, for a trunk of `width` numbers."""
    critic = Critic(width, scale, hidden, num_values)
    _initialise(critic, seed)
    return critic


def build(shape: Shape, scale: Tensor, seed: int) -> PolicyNetwork:
    """A network with fresh orthogonal weights drawn from `seed`; the policy starts almost even, the values near 0."""
    network = PolicyNetwork(shape, scale)
    _initialise(network, seed)
    return network


def _initialise(network: nn.Module, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for name, module in network.named_modules():
        if isinstance(module, nn.Linear):
            gain = 0.01 if name in ("policy", "slot_score") else 1.0 if name == "value" else 2.0**0.5
            with torch.no_grad():
                nn.init.orthogonal_(module.weight, gain, generator=generator)
                if module.bias is not None:
                    module.bias.zero_()


def make_shape(network: Network, slices: Mapping[str, slice], num_actions: int, values: int) -> Shape:
    """The shape of the configured network over an observation made of `slices`, with `values` rewards kept apart.

    Raises:
        ConfigError: `network.card_slots` does not fit the observation or the actions.
    """
    slots = find_slots(network.card_slots, slices)
    if slots and slots.actions > num_actions:
        raise ConfigError(
            f"network.card_slots.actions: {slots.actions} is not allowed, the game has {num_actions} actions"
        )
    return Shape(max(part.stop for part in slices.values()), num_actions, network.hidden, values, slots)


def shape_to_mapping(shape: Shape) -> dict[str, Any]:
    """The shape as plain data, for a checkpoint's card."""
    return dataclasses.asdict(shape)


def shape_from_mapping(data: Mapping[str, Any]) -> Shape:
    """The inverse of `shape_to_mapping`, also through JSON; KeyError or TypeError if the data is none."""
    slots = data["slots"]
    if slots:
        slots = Slots(**{**slots, "ranges": tuple((start, stop) for start, stop in slots["ranges"])})
    return Shape(**{**data, "hidden": tuple(data["hidden"]), "slots": slots})
