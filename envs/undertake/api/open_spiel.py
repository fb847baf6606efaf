"""Both games as OpenSpiel games, over the same rules and records as everything else.

    import pyspiel
    import undertake.api.open_spiel  # registers python_undertake_no_thanks and python_undertake_six_nimmt

    game = pyspiel.load_game("python_undertake_no_thanks(players=4,reward=margin)")

Parameters are the games' options (`players` for `num_players`; -1 for an option that is None), and

    reward=rank            or win, score, margin: the returns, all paid at the end; all but score sum to zero
    view=table             or recall: what observations tell
    chance=explicit        every card is a chance node; sampled: one chance node deals from a random stream
    first_player=-1        No Thanks!: the seat that begins, -1 for chance
    rng_seed=-1            the random stream of chance=sampled, -1 for a new one each time the game is loaded

No Thanks! is sequential and of perfect information: what one player does not know, nobody knows. 6 nimmt! is
simultaneous, with nodes of one player where a row is chosen; `pyspiel.convert_to_turn_based` makes it sequential. Its
`length` is "hand" here unless said otherwise: OpenSpiel wants an end in sight.

Actions are those of the other faces, without *wait*. Information states hold all public events since the deal and the
player's own hand, hence perfect recall. Observations are those of the view. Nobody resigns here.

Letters: n players, N actions, D features.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyspiel

from undertake.api.open_spiel_table import DECKS, Table, card_chances, unpacked
from undertake.api.open_spiel_tensors import Observer
from undertake.core.batch import new_states, records
from undertake.core.compile import compiled
from undertake.core.game import (
    REWARDS,
    VIEWS,
    Game,
    check_choice,
    check_whole,
    get_game,
    legal,
    make_options,
    play,
    see,
    shuffle,
    start,
)
from undertake.core.game import score as score_of
from undertake.core.reward import SCORE, final_reward, worst_return
from undertake.core.rng import stream

__all__ = ["OpenSpielGame", "OpenSpielState"]

CHANCES = ("explicit", "sampled")
_PAD = 64  # `legal` writes 64 bytes at a time, the last of them past the row's end
_NONE = -1
_ENDLESS = 1 << 24  # OpenSpiel multiplies it by the number of players

# What kernels take: `states` and `views` are arrays of one record.


@compiled
def _deal(states: npt.NDArray[Any], key: np.uint64, first_player: int) -> None:
    states[0].rng = stream(key, 0)
    shuffle(states[0])
    start(states[0], first_player)


@compiled
def _start(states: npt.NDArray[Any], first_player: int) -> None:
    start(states[0], first_player)


@compiled
def _play(states: npt.NDArray[Any], action: int) -> None:
    play(states[0], action)


@compiled
def _legal(states: npt.NDArray[Any], views: npt.NDArray[Any], masks: npt.NDArray[np.int8], num_actions: int) -> int:
    """Write the masks of all seats (flat [n * N], padded); returns how many of them have something to decide."""
    deciders = 0
    for seat in range(states[0].num_players):
        see(states[0], seat, False, views[0])
        legal(views[0], masks, seat * num_actions)
        for action in range(num_actions):
            if masks[seat * num_actions + action] != 0:
                deciders += 1
                break
    return deciders


@compiled
def _returns(states: npt.NDArray[Any], kind: int, returns: npt.NDArray[np.float64]) -> None:
    for seat in range(states[0].num_players):
        returns[seat] = -score_of(states[0], seat) if kind == SCORE else final_reward(states[0], seat, kind)


_OPTIONS: dict[str, dict[str, Any]] = {
    "no_thanks": {
        "after_take": "taker",
        "open_chips": False,
        "lowest": 3,
        "highest": 35,
        "removed": 9,
        "chips": _NONE,
        "first_player": _NONE,
    },
    "six_nimmt": {
        "length": "hand",
        "limit": 66,
        "deck": "full",
        "row_choice": "player",
        "hand_size": 10,
        "num_rows": 4,
        "row_size": 5,
        "num_cards": _NONE,
    },
}
_PARAMETERS = {"players": 4, "reward": "rank", "view": "table", "chance": "explicit", "rng_seed": _NONE}


class OpenSpielGame(pyspiel.Game):  # type: ignore[misc]
    """One of the games with its options; made by `pyspiel.load_game`.

    Raises ValueError or TypeError in one line for parameters that cannot be.
    """

    def __init__(self, name: str, params: Mapping[str, Any] | None = None) -> None:
        given = {**_PARAMETERS, **_OPTIONS[name], **(params or {})}
        self.game = get_game(name)
        own = {key: given[key] for key in _OPTIONS[name] if key != "first_player"}
        own.update({key: None for key in ("chips", "num_cards") if own.get(key) == _NONE})
        self.options = make_options(self.game, {**own, "num_players": given["players"]})
        for what, allowed in (("reward", REWARDS), ("view", VIEWS), ("chance", CHANCES)):
            check_choice(what, given[what], allowed)
        players = self.options.num_players
        self.first_player = given.get("first_player", 0)
        check_whole("first_player", self.first_player, _NONE, players - 1)
        self.explicit = given["chance"] == "explicit"
        self.view, self.kind = given["view"], REWARDS.index(given["reward"])
        self.deck = DECKS[name]
        self.match = given.get("length") == "match"
        if self.match and self.explicit:
            raise ValueError("length is 'match' with chance='explicit', which deals one hand; give chance=sampled")
        check_whole("rng_seed", given["rng_seed"], _NONE, 2**31 - 1)
        self._rng = np.random.default_rng(None if given["rng_seed"] == _NONE else given["rng_seed"])
        template = new_states(self.game, self.options, 1)
        self.game.lay(template.view(np.recarray)[0], list(self.options.cards()))
        self._template, self._dtype = template.tobytes(), template.dtype
        super().__init__(self._type(), self._info(), params or {})

    def _type(self) -> Any:
        zero = pyspiel.GameType.Utility.ZERO_SUM
        chance, information = pyspiel.GameType.ChanceMode, pyspiel.GameType.Information
        return _game_type(
            self.game,
            utility=pyspiel.GameType.Utility.GENERAL_SUM if self.kind == SCORE else zero,
            chance_mode=chance.EXPLICIT_STOCHASTIC if self.explicit else chance.SAMPLED_STOCHASTIC,
            information=information.PERFECT_INFORMATION if self.deck.starter else information.IMPERFECT_INFORMATION,
            tensor=not self.match,
        )

    def _info(self) -> Any:
        low, high = self.options.score_bounds()
        best = (1.0, 1 - 1 / self.options.num_players, -low, high - low)[self.kind]
        outcomes = max(len(self.options.cards()), self.options.num_players) if self.explicit else 1
        return pyspiel.GameInfo(
            num_distinct_actions=self.game.num_actions - 1,  # all but wait, which is the last
            max_chance_outcomes=outcomes,
            num_players=self.options.num_players,
            min_utility=worst_return(self.options, self.kind),
            max_utility=best,
            utility_sum=None if self.kind == SCORE else 0.0,
            max_game_length=self._max_decisions(),
        )

    def _max_decisions(self) -> int:
        """An upper bound; all choosing at once is one."""
        options = self.options
        if self.deck.starter:
            return int((len(options.cards()) - options.removed) * (options.num_players * options.start_chips + 1))
        hand = 2 * options.hand_size
        if not self.match:
            return int(hand)
        # Where a hand's cards exceed the places in the rows, somebody takes a bull; else a match may go on for ever.
        overflow = options.hand_size * options.num_players + options.num_rows - options.num_rows * options.row_size
        return int(hand * (options.num_players * (options.limit - 1) + 1)) if overflow > 0 else _ENDLESS

    def max_chance_nodes_in_history(self) -> int:
        """An upper bound of the chance nodes of a game."""
        cards = len(self.options.cards())
        return cards + 1 if self.explicit else 1

    def new_initial_state(self) -> OpenSpielState:
        """A table at which nothing has been dealt."""
        return OpenSpielState(self)

    def new_table(self) -> Table:
        """What a new state holds; takes a seed from the game's random stream where chance is sampled."""
        states = unpacked(self._template, self._dtype)
        if not self.explicit:
            states["rng"] = self._rng.integers(0, 1 << 64, dtype=np.uint64)
        return Table(states, self.first_player)

    def make_py_observer(self, iig_obs_type: Any = None, params: Any = None) -> Observer:
        """The view's observation, or with perfect recall the information state.

        Raises ValueError for other kinds than the public and the player's own information together.
        """
        kind = iig_obs_type or pyspiel.IIGObservationType(perfect_recall=False)
        if params:
            raise ValueError(f"observation parameters are {params!r}; there are none")
        if not kind.public_info or kind.private_info != pyspiel.PrivateInfoType.SINGLE_PLAYER:
            raise ValueError(
                "an observation holds the public and the player's own information, not one without the other"
            )
        return Observer(self.game, self.options, self.view, kind.perfect_recall, tensor=not self.match)


class OpenSpielState(pyspiel.State):  # type: ignore[misc]
    """A position; OpenSpiel's documentation of `pyspiel.State` says what its methods do."""

    def __init__(self, game: OpenSpielGame) -> None:
        super().__init__(game)
        self.table = game.new_table()

    def current_player(self) -> int:
        """The seat to act, or one of OpenSpiel's numbers for chance, all at once and the end."""
        return self.table.player

    def is_terminal(self) -> bool:
        """Whether the game is over."""
        return bool(self.table.player == pyspiel.PlayerId.TERMINAL)

    def _legal_actions(self, player: int) -> list[int]:
        return self.table.legal[player]

    def chance_outcomes(self) -> list[tuple[int, float]]:
        """Who begins, or a card by its number less the deck's lowest; cards dealt together come in ascending order."""
        game, table = self.get_game(), self.table
        if not game.explicit:
            return [(0, 1.0)]
        if table.first_player < 0:
            players = game.options.num_players
            return [(seat, 1 / players) for seat in range(players)]
        cards, deck = game.options.cards(), table.states["deck"][0]
        place, size = game.deck.group(game.options, table.settled)
        floor = int(deck[table.settled - 1]) if place else 0
        left = sorted(card for card in deck[table.settled : len(cards)].tolist() if card > floor)
        chances = card_chances(len(left), size - place)
        return [(card - cards[0], chance) for card, chance in zip(left, chances, strict=False)]

    def _apply_action(self, action: int) -> None:
        if self.table.player == pyspiel.PlayerId.CHANCE:
            self._apply_chance(action)
        else:
            self._decide(action)
        self._look()

    def _apply_actions(self, actions: Sequence[int]) -> None:
        for _ in actions:
            self._decide(actions[int(self.table.states["turn"][0])])
        self._look()

    def _apply_chance(self, outcome: int) -> None:
        game, table = self.get_game(), self.table
        if not game.explicit:
            _deal(table.states, table.states["rng"][0], table.first_player)
            table.started = True
            return
        if table.first_player < 0:
            table.first_player = outcome
            return
        deck, card = table.states["deck"][0], outcome + game.options.cards()[0]
        at = table.settled + int(np.flatnonzero(deck[table.settled :] == card)[0])
        deck[at], deck[table.settled] = deck[table.settled], card
        table.settled += 1
        if table.pending >= 0:
            action, table.pending = table.pending, _NONE
            self._decide(action)
        elif table.settled == game.deck.at_start(game.options):
            _start(table.states, table.first_player)
            table.started = True

    def _decide(self, action: int) -> None:
        """Play a decision, or let it wait for the card that it turns up where chance has not drawn that yet."""
        game, table = self.get_game(), self.table
        before = table.states.tobytes()
        _play(table.states, action)
        if game.explicit and game.deck.turned_up(table.states) > table.settled:
            table.states, table.pending = unpacked(before, table.states.dtype), action
        else:
            table.log += ((before, action),)

    def _look(self) -> None:
        """Find out who is to act and what they may do."""
        game, table = self.get_game(), self.table
        if not table.started or table.pending >= 0:
            table.player = int(pyspiel.PlayerId.CHANCE)
            return
        turn = int(table.states["turn"][0])
        if turn < 0:
            table.player = int(pyspiel.PlayerId.TERMINAL)
            return
        players, actions = game.options.num_players, game.game.num_actions
        masks = np.zeros(players * actions + _PAD, np.int8)
        deciders = _legal(table.states, records(game.game.view_dtype), masks, actions)
        rows = masks[: players * actions].reshape(players, actions)
        table.legal = tuple(row.nonzero()[0].tolist() for row in rows)
        table.player = int(pyspiel.PlayerId.SIMULTANEOUS) if deciders > 1 else turn

    def returns(self) -> list[float]:
        """What each player is paid, by the game's `reward`; zeros until the game is over."""
        game = self.get_game()
        found = np.zeros(game.options.num_players)
        if self.is_terminal():
            _returns(self.table.states, game.kind, found)
        return found.tolist()  # type: ignore[no-any-return]

    def _action_to_string(self, player: int, action: int) -> str:
        game = self.get_game()
        if player != pyspiel.PlayerId.CHANCE:
            return str(game.game.action_name(action))
        if not game.explicit:
            return "deal"
        return f"player_{action} begins" if self.table.first_player < 0 else f"card {action + game.options.cards()[0]}"

    def __str__(self) -> str:
        """The whole table in a few lines, without the deck: equal where positions of No Thanks! go on equally."""
        game, table = self.get_game(), self.table
        if not table.started:
            deck = table.states["deck"][0][: table.settled].tolist()
            return f"{game.game.title}   first player {table.first_player}, cards {deck}"
        text = game.game.text(game.game.table(table.record()))
        return f"{text}{game.game.action_name(table.pending)}: a card is turned up\n" if table.pending >= 0 else text


def _game_type(game: Game, *, utility: Any, chance_mode: Any, information: Any, tensor: bool) -> Any:
    sequential = DECKS[game.name].starter
    dynamics = pyspiel.GameType.Dynamics
    return pyspiel.GameType(
        short_name=f"python_undertake_{game.name}",
        long_name=f"Undertake: {game.title}",
        dynamics=dynamics.SEQUENTIAL if sequential else dynamics.SIMULTANEOUS,
        chance_mode=chance_mode,
        information=information,
        utility=utility,
        reward_model=pyspiel.GameType.RewardModel.TERMINAL,
        max_num_players=game.max_players,
        min_num_players=game.min_players,
        provides_information_state_string=True,
        provides_information_state_tensor=tensor,
        provides_observation_string=True,
        provides_observation_tensor=True,
        parameter_specification={**_PARAMETERS, **_OPTIONS[game.name]},
    )


class NoThanksGame(OpenSpielGame):
    """python_undertake_no_thanks."""

    def __init__(self, params: Mapping[str, Any] | None = None) -> None:
        super().__init__("no_thanks", params)


class SixNimmtGame(OpenSpielGame):
    """python_undertake_six_nimmt."""

    def __init__(self, params: Mapping[str, Any] | None = None) -> None:
        super().__init__("six_nimmt", params)


# Classes, not functions: OpenSpiel lets go of them after the interpreter's end, which a function would not survive.
for _class in (NoThanksGame, SixNimmtGame):
    pyspiel.register_game(_class().get_type(), _class)
