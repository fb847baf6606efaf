"""Policies by name: scripted bots, trained ones, and what a user brings along.

`make_policy` turns a name or an object into a `Policy`, which sits down at any table of its game, in a match or in an
environment's loop. `docs/policies.md` describes what an object has to offer. Letters: B tables, N actions, D features.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import inspect
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from undertake.arena.deals import look
from undertake.core.batch import illegal_message, records
from undertake.core.compile import JIT, compiled
from undertake.core.game import GAMES, VIEWS, Game, check_choice, choose, get_game
from undertake.core.memory import Memory, Past, remembered, scale, width

__all__ = ["Policy", "PolicyError", "make_policy"]

SEES = ("observation", "view")
_PAD = 64  # `encode` and `legal` write 64 bytes at a time, the last of them past the row's end
_ROLLOUT = re.compile(r"(?:\w+/)?rollout:")
_FORMS = "a policy's name, 'checkpoint:PATH', 'onnx:PATH', 'rollout:N:policy', 'sb3:PATH' or 'package.module:attribute'"


class PolicyError(ValueError):
    """A policy that cannot be had, does not fit the table, or has done what it may not; the message is one line."""


class Trusted(str):
    """The name of a policy whose file the caller vouches for.

    It goes to worker processes as it is, and no text from a command line or a file is one by itself.
    """

    __slots__ = ()

    def __str__(self) -> str:
        return self


@dataclass(frozen=True)
class Policy:
    """What plays a seat; made by `make_policy`.

    Attributes:
        name: as reports write it
        game: the only game it plays, None for any
        view: the view it was made for, None for that of the table
        source: the text from which `make_policy` makes it again, None where an object was given
        target: None for a scripted bot, else what is called with observations `[D]`, or `[B, D]` if `batched`
        sees: whether `target` is given an "observation" or the seat's "view" record
        memory: what of its seat's earlier decisions is stacked on the observation, see `core.memory`
        takes_rng: whether `target` takes a third argument, a `np.random.Generator`
        fingerprint: changes when the policy does; "" where that cannot be told
        rng: its random numbers in `action`; a match brings its own
    """

    name: str
    game: str | None = None
    view: str | None = None
    source: str | None = None
    target: Callable[..., Any] | None = None
    batched: bool = False
    sees: str = "observation"
    memory: Memory = field(default_factory=Memory)
    takes_rng: bool = False
    fingerprint: str = ""
    rng: np.random.Generator = field(default_factory=np.random.default_rng, repr=False, compare=False)

    @property
    def scripted(self) -> bool:
        """Whether it is one of the games' compiled bots."""
        return self.target is None

    def bot(self, game: Game) -> npt.NDArray[Any]:
        """The `BOT` record, an array of one, of a scripted policy."""
        found = game.bots[self.name]
        return found if JIT else found.view(np.recarray)

    def seated(self, game: Game, view: str) -> str:
        """The view it gets at a table of `game` that is played with `view`; PolicyError where it does not fit there."""
        if self.game not in (None, game.name):
            raise PolicyError(f"policy {self.name!r} plays {self.game}; the game here is {game.name}")
        if self.view == "recall" and view == "table":
            raise PolicyError(f"policy {self.name!r} needs the view 'recall'; the view here is 'table'")
        try:
            remembered(game.layouts[self.view or view], self.memory)
        except ValueError as error:
            raise PolicyError(f"policy {self.name!r}: {error}") from None
        return self.view or view

    def past(self, game: Game, view: str, tables: int, seats: int) -> Past | None:
        """Room for what it remembers in the seats of new games at T tables; None for a policy without a memory."""
        if not self.memory.decisions:
            return None
        return Past(game.layouts[self.seated(game, view)], self.memory, tables, seats)

    def actions(
        self,
        game: Game,
        states: npt.NDArray[Any],
        seats: npt.NDArray[np.int64],
        view: str,
        rng: np.random.Generator,
        past: Past | None = None,
        tables: npt.NDArray[np.int64] | None = None,
    ) -> npt.NDArray[np.int64]:
        """The actions (int64 [B]) of the seats `seats` of the tables `states`, state records, all of which are to act.

        `past` is what `Policy.past` gave when their games began, in which the tables have the numbers `tables`
        (int64 [B], 0 to B - 1 without it); what the seats see now is added to it.

        Raises PolicyError where an action is illegal or what the policy returned holds no actions, and for a policy
        with a memory that is given none.
        """
        view = self.seated(game, view)
        if self.memory.decisions and past is None:
            raise PolicyError(
                f"policy {self.name!r} remembers its decisions, which nobody keeps for it here; it plays in matches, "
                "and by 'action' in AEC and Parallel environments"
            )
        count, layout = len(states), game.layouts[view]
        views = records(game.view_dtype, count)
        num_features = width(layout, self.memory) if self.target is not None and self.sees == "observation" else 0
        counts = np.zeros(count * num_features + _PAD, np.uint8)[: count * num_features]
        flat = np.zeros(count * game.num_actions + _PAD, np.int8)[: count * game.num_actions]
        look(states, seats, view == "recall", views, counts, flat)
        mask = flat.reshape(count, game.num_actions)
        if self.target is None:
            chosen = np.zeros(count, np.int64)
            words = rng.integers(0, 1 << 64, count, dtype=np.uint64)
            _choose(views, self.bot(game), words, chosen)
            return chosen
        seen: Any = views.view(np.recarray)
        if self.sees == "observation":
            rows = counts.reshape(count, num_features)
            if past is not None:
                at = np.arange(count) if tables is None else tables
                past.stack(at, seats, rows)
                past.push(at, seats, rows)
            seen = rows * scale(layout, self.memory)
        chosen = self._ask(seen, mask.copy(), rng)
        inside = (chosen >= 0) & (chosen < game.num_actions)
        allowed = inside & (mask[np.arange(count), np.where(inside, chosen, 0)] == 1)
        if not allowed.all():
            bad = int(np.argmin(allowed))
            raise PolicyError(f"policy {self.name!r}: {illegal_message(game, int(chosen[bad]), mask[bad])}")
        return chosen

    def action(self, env: Any, agent: str) -> int:
        """The action of `agent` in one of this package's PettingZoo environments, AEC or Parallel.

        In Parallel it is *wait* for an agent that has nothing to decide. What a policy with a memory has seen in the
        running game is kept by the environment and its copies, until they are reset; to be asked again before the agent
        has played is no second decision.

        Raises PolicyError where the policy does not fit the environment or errs, in AEC ValueError for an agent that
        has nothing to decide, TypeError for an environment of another kind.
        """
        raw = env.unwrapped
        if not hasattr(type(raw), "policy_input"):
            raise TypeError(f"env is {env!r}; one of undertake's environments is needed")
        if raw.default_action(agent) == raw.game.wait:
            return int(raw.game.wait)
        states, seat = raw.policy_input(agent)
        past = self._past_in(raw, agent, seat)
        return int(self.actions(raw.game, states, np.array([seat]), raw.view_name, self.rng, past)[0])

    def _past_in(self, raw: Any, agent: str, seat: int) -> Past | None:
        """What an environment keeps for a policy with this memory, as it was before the decision asked for now."""
        fresh = self.past(raw.game, raw.view_name, 1, len(raw.possible_agents))
        if fresh is None:
            return None
        kept: tuple[Past, dict[str, tuple[bytes, npt.NDArray[np.uint8]]]]
        kept = raw.pasts.setdefault((self.view, self.memory), (fresh, {}))
        past, asked = kept
        # What an agent sees at two of its decisions is never the same: its chips, its cards or its hand have changed.
        now = raw.observe(agent)["observation"].tobytes()
        if agent in asked and asked[agent][0] == now:
            past.kept[0, seat] = asked[agent][1]
        asked[agent] = now, past.kept[0, seat].copy()
        return past

    def _ask(self, seen: Any, mask: npt.NDArray[np.int8], rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Call the user's code, once if it is batched and otherwise once a table."""
        assert self.target is not None
        rest = (rng,) if self.takes_rng else ()
        try:
            if not self.batched:
                answers = [self.target(seen[b], mask[b], *rest) for b in range(len(mask))]
            else:
                answers = self.target(seen, mask, *rest)
        except Exception as error:
            error.add_note(f"raised by the policy {self.name!r}")
            raise
        if not self.batched:
            return np.array([self._whole(answer) for answer in answers], np.int64)
        found = np.asarray(answers)
        if found.dtype.kind not in "iu" or found.shape != (len(mask),):
            raise PolicyError(
                f"policy {self.name!r} returned {found.dtype} {list(found.shape)}; integers [{len(mask)}] are needed"
            )
        return found.astype(np.int64)

    def _whole(self, answer: Any) -> int:
        try:
            return operator.index(answer)
        except TypeError:
            raise PolicyError(f"policy {self.name!r} returned {answer!r}; an action's number is needed") from None


@compiled
def _choose(
    views: npt.NDArray[Any], bot: npt.NDArray[Any], words: npt.NDArray[np.uint64], chosen: npt.NDArray[np.int64]
) -> None:
    for b in range(views.shape[0]):
        chosen[b] = choose(views[b], bot[0], words[b])


def make_policy(policy: Any, game: str | None = None, *, seed: int | None = None, trust: bool = False) -> Policy:
    """The policy called `policy`, or the one that the object `policy` is.

    Names: "no_thanks/tuned", a scripted bot, or "no_thanks/champion", a trained policy that comes with the package,
    where the prefix may go if `game` is given; "random", uniform over the legal actions of any game; "checkpoint:PATH",
    a trained one, "onnx:PATH", one that `undertake export` has written, which plays without torch;
    "rollout:300:random", a searching one that plays 300 imagined worlds out for every action, by that policy or several
    after commas (300total, 50ms: see `search.rollout`);
    "sb3:PATH", one that stable-baselines3 has saved, which asks for `trust`: its zip holds pickles, and these can run
    any code when they are opened; "my_package.my_module:MyPolicy", a function or class that can be imported. Objects:
    functions, classes and instances as `docs/policies.md` describes them.

    With a `seed` the random numbers of `Policy.action` are the same each time.

    Raises PolicyError in one line, with the nearest name, for one that is not known or does not play `game`, and what
    `undertake_training` raises for a checkpoint that cannot be loaded.
    """
    if game is not None:
        check_choice("game", game, GAMES)
    if isinstance(policy, Policy):
        found = policy
    elif isinstance(policy, str):
        found = _by_name(Trusted(policy) if trust else policy, game)
    else:
        found = of_object(policy, None)
    if game is not None and found.game not in (None, game):
        raise PolicyError(f"policy {found.name!r} plays {found.game}; the game here is {game}")
    return replace(found, rng=np.random.default_rng(seed)) if seed is not None else found


def _by_name(name: str, game: str | None) -> Policy:
    from undertake.arena import trained  # it needs what stands here

    kind, colon, path = name.partition(":")
    if colon and kind in trained.KINDS:
        return trained.KINDS[kind](name, Path(path), game)
    if _ROLLOUT.match(name):
        return _rollout(name, game)
    if colon:
        return _imported(name)
    if name == "random":
        return Policy(name, source=name, fingerprint=name)
    prefix, slash, short = name.rpartition("/")
    if not slash and game is None:
        every = [f"{known}/{each}" for known in GAMES for each in [*get_game(known).bots, *trained.shipped(known)]]
        meant = [each for each in every if each.endswith(f"/{name}")]
        near = f", did you mean {' or '.join(map(repr, meant))}?" if meant else _hint(name, every)
        raise PolicyError(f"policy {name!r} is unknown where no game is given{near}; give {_FORMS}")
    if slash:
        check_choice(f"the game of policy {name!r}", prefix, GAMES)
    own = prefix or str(game)
    bots, shipped = get_game(own).bots, trained.shipped(own)
    if short in bots:
        return Policy(short, game=own, source=f"{own}/{short}", fingerprint=f"{own}/{short}")
    if short in shipped:
        found = trained.checkpoint(f"{own}/{short}", shipped[short], own)
        return replace(found, name=short)
    near = _hint(short, [*bots, *shipped])
    listed = f"the bots {', '.join(bots)} and the trained policies {', '.join(shipped) or '(none is installed)'}"
    raise PolicyError(f"policy {name!r} is unknown{near}; {own} has {listed}; else give {_FORMS}")


def _hint(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f", did you mean {near[0]!r}?" if near else ""


def _rollout(name: str, game: str | None) -> Policy:
    """A searching player, "rollout:BUDGET:policy[,policy…]"; its game is told by the prefix or by its policies."""
    head, _, rest = name.partition("rollout:")
    budget, _, listed = rest.partition(":")
    if not listed:
        raise PolicyError(f"policy {name!r} names no policy to play the rounds out; give 'rollout:N:policy'")
    if head:
        check_choice(f"the game of policy {name!r}", head[:-1], GAMES)
    inner = [make_policy(each, head[:-1] or game) for each in listed.split(",")]
    own = head[:-1] or game or next((policy.game for policy in inner if policy.game), None)
    if own is None:
        raise PolicyError(f"policy {name!r} is of no game by itself; write no_thanks/{name} or six_nimmt/{name}")
    module = importlib.import_module("undertake.search.rollout")
    try:
        player = module.Rollout(own, module.parse_budget(budget), inner)
    except ValueError as error:
        raise PolicyError(f"policy {name!r}: {error}") from None
    fingerprint = f"{own}/rollout:{budget}:" + ",".join(policy.fingerprint for policy in inner)
    source = name if head else f"{own}/{name}"
    return replace(of_object(player, name), source=source, game=own, fingerprint=fingerprint)


def _imported(name: str) -> Policy:
    module_name, _, attribute = name.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except (ImportError, ValueError) as error:
        missing = isinstance(error, ModuleNotFoundError) and module_name.startswith(error.name or "?")
        what = "there is no such module to import" if missing else f"its module cannot be imported: {error}"
        raise PolicyError(f"policy {name!r}: {what}; a policy is {_FORMS}") from error
    file = getattr(found, "__file__", None)
    for part in attribute.split("."):
        if not hasattr(found, part):
            near = _hint(part, (each for each in vars(found) if not each.startswith("_")))
            raise PolicyError(f"policy {name!r}: {module_name} has no {attribute!r}{near}")
        found = getattr(found, part)
    policy = of_object(found, name)
    return policy if policy.fingerprint or not file else replace(policy, fingerprint=_digest(Path(file)))


def _digest(file: Path) -> str:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()
    except OSError:
        return ""


def of_object(given: Any, source: str | None) -> Policy:
    """Read off an object what the protocol of `docs/policies.md` says of it."""
    name = source or getattr(given, "name", None) or getattr(given, "__name__", None) or type(given).__name__
    if inspect.isclass(given):
        try:
            given = given()
        except TypeError as error:
            raise PolicyError(f"policy {name!r}: its class cannot be made without arguments: {error}") from error
    target = getattr(given, "act", given)
    if not callable(target):
        raise PolicyError(f"policy {name!r} is {given!r}; neither a function nor something with a method 'act'")
    settings: dict[str, Any] = {
        "game": getattr(given, "game", None),
        "view": getattr(given, "view", None),
        "sees": getattr(given, "sees", "observation"),
        "memory": getattr(given, "memory", Memory()),
    }
    for what, allowed in (("game", GAMES), ("view", VIEWS), ("sees", SEES)):
        if settings[what] is not None:
            try:
                check_choice(what, settings[what], allowed)
            except ValueError as error:
                raise PolicyError(f"policy {name!r}: {error}") from None
    if not isinstance(settings["memory"], Memory) or (settings["memory"].decisions and settings["sees"] == "view"):
        wanted = "an undertake.core.memory.Memory, of a policy that sees the observation, is needed"
        raise PolicyError(f"policy {name!r}: its memory is {settings['memory']!r}; {wanted}")
    return Policy(
        str(name),
        source=source,
        target=target,
        batched=bool(getattr(given, "batched", False)),
        takes_rng=_takes_rng(target),
        fingerprint=str(getattr(given, "fingerprint", "")),
        **settings,
    )


def _takes_rng(target: Callable[..., Any]) -> bool:
    """Whether `target` can be called with three arguments."""
    try:
        inspect.signature(target).bind(None, None, None)
    except (TypeError, ValueError):
        return False
    return True
