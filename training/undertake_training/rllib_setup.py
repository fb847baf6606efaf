"""The parts of RLlib's PPO in self-play: the environments, one masked network for all seats, the configuration.

For scripts of one's own and for `undertake_training.rllib`; needs the extra [rllib].
Letters: B decisions, D features, N actions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import numpy as np
import torch
import tyro
from ray.rllib.algorithms.algorithm import Algorithm
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.core.columns import Columns
from ray.rllib.core.rl_module.apis.value_function_api import ValueFunctionAPI
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule
from ray.rllib.env.multi_agent_env import MultiAgentEnv
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv, PettingZooEnv
from torch import Tensor

from undertake import arena
from undertake.api.aec import AECFace
from undertake.api.parallel import ParallelFace
from undertake.arena.cli import read_options
from undertake.core.batch import make_batch
from undertake.core.game import GAMES, REWARDS, VIEWS, Game, check_choice, check_whole, get_game, make_options
from undertake_training.config import CardSlots, Network
from undertake_training.network import PolicyNetwork, Shape, build, make_shape, shape_from_mapping, shape_to_mapping

__all__ = ["MODULE", "MaskedModule", "Settings", "check", "env_class", "make_config", "module_spec", "network_of"]

MODULE = "shared"
"""Id of the one module that plays all seats."""

_SIMULTANEOUS = ("six_nimmt",)  # by the Parallel face; the others, where the players act in turn, by AEC
_CARD_SLOTS = {"six_nimmt": CardSlots(slices=("hand_cards",))}


@dataclass(frozen=True)
class Settings:
    """What is trained, and how."""

    game: str = "no_thanks"
    """no_thanks or six_nimmt."""
    num_players: int = 4
    """Seats at every table."""
    view: Literal["table", "recall"] = "recall"
    """What the seats see."""
    reward: Literal["rank", "win", "score", "margin"] = "rank"
    """What they are paid."""
    option: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME=VALUE")] = ()
    """A rule of the game, as name=value; 6 nimmt! is one hand unless length=match."""
    hidden: tuple[int, ...] = (256, 128, 128)
    """Widths of the network's layers."""
    seed: int = 0
    """Seed of network, deals and play."""
    iterations: int = 100
    """Iterations in all, those before a resumption included."""
    batch: int = 8192
    """Environment steps sampled for an iteration. In 6 nimmt! all seats act in each."""
    minibatch: int = 1024
    """Decisions a gradient step."""
    epochs: int = 2
    """Passes over an iteration's decisions."""
    learning_rate: float = 1e-3
    """Adam's step size."""
    entropy: float = 0.02
    """Weight of the entropy bonus."""
    clip: float = 0.1
    """Bound on the change of a decision's probability ratio."""
    gae_lambda: float = 0.95
    """Lambda of the advantage estimate; there is no discount."""
    runners: int = 1
    """Remote environment runners, of one CPU each, on whichever machine has one; 0: sampling in this process."""
    tables: int = 32
    """Tables of each runner, played side by side."""
    checkpoint_every: int = 10
    """Iterations between two checkpoints; the last one is always saved."""

    @property
    def options(self) -> dict[str, Any]:
        """The game's options without the number of players, those left out as the measuring protocol has them."""
        setting = arena.make_setting(self.game, self.num_players, **read_options(self.option, self.game))
        return {name: value for name, value in setting.options if name != "num_players"}

    @property
    def network(self) -> Network:
        """The configured network."""
        return Network(tuple(self.hidden), _CARD_SLOTS.get(self.game, CardSlots()))


def check(settings: Settings) -> None:
    """Raise ValueError or TypeError in one line for a setting that cannot be."""
    check_choice("game", settings.game, GAMES)
    check_choice("view", settings.view, VIEWS)
    check_choice("reward", settings.reward, REWARDS)
    for name, low in (("batch", 1), ("minibatch", 1), ("epochs", 1), ("tables", 1), ("checkpoint_every", 1),
                      ("iterations", 0), ("runners", 0), ("seed", 0)):  # fmt: skip
        check_whole(name, getattr(settings, name), low, 2**31 - 1)
    assert settings.options is not None, "checks the options"


class TurnsEnv(PettingZooEnv):  # type: ignore[misc]
    """RLlib's environment of a game whose players act in turn, over its AEC face.

    `config` holds "game" and, where they differ from the defaults, "view", "reward" and the game's options.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        what, told = _split(config)
        super().__init__(AECFace(*what, **told))


class SimultaneousEnv(ParallelPettingZooEnv):  # type: ignore[misc]
    """The same of a game whose players act at the same time, over its Parallel face."""

    def __init__(self, config: Mapping[str, Any]) -> None:
        what, told = _split(config)
        super().__init__(ParallelFace(*what, **told))


def _split(config: Mapping[str, Any]) -> tuple[tuple[Game, Any], dict[str, Any]]:
    """What a face is made of: the game and its options, then view and reward."""
    options = dict(config)
    game = get_game(options.pop("game"))
    told: dict[str, Any] = {name: options.pop(name) for name in ("view", "reward") if name in options}
    return (game, make_options(game, options)), told


def env_class(game: str) -> type[MultiAgentEnv]:
    """The environment of a game; a class, since RLlib loses registered names when a process joins a second cluster."""
    return SimultaneousEnv if game in _SIMULTANEOUS else TurnsEnv


class MaskedModule(TorchRLModule, ValueFunctionAPI):  # type: ignore[misc]
    """`PolicyNetwork` as an RLModule: an action that the mask forbids has probability 0.

    The observation space is the environments' `Dict(observation=Box [D], action_mask=Box [N])`. `model_config` may hold
    "shape" (`shape_to_mapping`; else layers of "hidden" widths), "buffers" (lists [D] by the names of the network's
    buffers) and "seed".
    """

    def setup(self) -> None:
        """Build the network; called by RLlib."""
        config = self.model_config
        shape = _shape(config, self.observation_space, self.action_space)
        self.network = build(shape, torch.ones(shape.num_features), config.get("seed", 0))
        for name, values in config.get("buffers", {}).items():
            self.network.get_buffer(name).copy_(torch.tensor(values))

    def _forward(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Tensor]:
        return {Columns.ACTION_DIST_INPUTS: self._ask(batch)[0]}

    def _forward_train(self, batch: dict[str, Any], **kwargs: Any) -> dict[str, Tensor]:
        # PPO hands the embeddings to compute_values: one pass gives both.
        log_probs, values = self._ask(batch)
        return {Columns.ACTION_DIST_INPUTS: log_probs, Columns.EMBEDDINGS: values}

    def compute_values(self, batch: dict[str, Any], embeddings: Tensor | None = None) -> Tensor:
        """Values `[B]`."""
        return (self._ask(batch)[1] if embeddings is None else embeddings).squeeze(-1)

    def _ask(self, batch: dict[str, Any]) -> tuple[Tensor, Tensor]:
        seen = batch[Columns.OBS]
        log_probs, values = self.network(seen["observation"], seen["action_mask"])
        return log_probs, values


def _shape(config: Mapping[str, Any], observations: Any, actions: Any) -> Shape:
    if "shape" in config:
        return shape_from_mapping(config["shape"])
    features = observations["observation"].shape[0]
    return Shape(features, int(actions.n), tuple(config.get("hidden", Network().hidden)))


def module_spec(settings: Settings) -> RLModuleSpec:
    """The module of the configured network, its input fitted to what observations of random play look like."""
    batch = make_batch(settings.game, num_envs=256, seed=settings.seed, view=settings.view,
                       num_players=settings.num_players, **settings.options)  # fmt: skip
    layout = get_game(settings.game).layouts[settings.view]
    shape = make_shape(settings.network, layout.slices, batch.num_actions, 1)
    network = PolicyNetwork(shape, torch.from_numpy(batch.scale.copy()))
    seen = []
    for step in range(400):
        batch.step(batch.random_actions(settings.seed + step))
        if step % 8 == 0:
            seen.append(torch.from_numpy(batch.observation.copy()))
    network.calibrate(torch.cat(seen))
    buffers = {name: buffer.tolist() for name, buffer in network.named_buffers()}
    return RLModuleSpec(
        module_class=MaskedModule,
        model_config={"shape": shape_to_mapping(shape), "buffers": buffers, "seed": settings.seed},
    )


def _seat(agent: str, episode: Any, **kwargs: Any) -> str:
    return MODULE


def _to_arrays(*, samples: Sequence[Any], **kwargs: Any) -> None:
    for episode in samples:
        episode.to_numpy()


def make_config(settings: Settings) -> PPOConfig:
    """RLlib's configuration of the settings, to be changed further or built; Ray need not run yet.

    Raises ValueError or TypeError in one line for a setting that cannot be.
    """
    check(settings)
    asked = {"game": settings.game, "num_players": settings.num_players, "view": settings.view}
    config = PPOConfig().environment(
        env_class(settings.game), env_config={**asked, "reward": settings.reward, **settings.options}
    )
    # Left to itself, a runner turns every episode that has ended into arrays anew in every step: most of its time.
    config = config.env_runners(
        num_env_runners=settings.runners,
        num_envs_per_env_runner=settings.tables,
        episodes_to_numpy=False,
    ).callbacks(on_sample_end=_to_arrays)
    config = config.multi_agent(policies={MODULE}, policy_mapping_fn=_seat)
    config = config.rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs={MODULE: module_spec(settings)}))
    config = config.training(
        gamma=1.0,
        lambda_=settings.gae_lambda,
        lr=settings.learning_rate,
        train_batch_size_per_learner=settings.batch,
        minibatch_size=settings.minibatch,
        num_epochs=settings.epochs,
        clip_param=settings.clip,
        entropy_coeff=settings.entropy,
        use_kl_loss=False,
        vf_clip_param=float("inf"),
        vf_loss_coeff=0.5,
        grad_clip=0.5,
    )
    return config.fault_tolerance(restart_failed_env_runners=True).debugging(seed=settings.seed, log_level="ERROR")


def network_of(algorithm: Algorithm) -> PolicyNetwork:
    """A copy of the network that is being trained as a `MaskedModule` with the id `MODULE`."""
    module = algorithm.get_module(MODULE)  # a runner's, for its shape alone: the learner has the newest weights
    network = PolicyNetwork(module.network.shape, torch.ones(module.network.shape.num_features))
    weights = algorithm.learner_group.get_weights(module_ids={MODULE})[MODULE]
    tensors = {name.removeprefix("network."): torch.from_numpy(np.array(value)) for name, value in weights.items()}
    network.load_state_dict(tensors)
    return network
