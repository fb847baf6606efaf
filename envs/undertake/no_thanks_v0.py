"""No Thanks! as a PettingZoo environment.

Every card costs its number, and whoever does not want the one in the middle pays a chip to pass it on, until somebody
takes it with all the chips on it. Runs of consecutive cards count their lowest card only, chips left are worth minus
one each, and the lowest score wins.

    from undertake import no_thanks_v0

    env = no_thanks_v0.env(num_players=4)
    env.reset(seed=1)
    for agent in env.agent_iter():
        observation, reward, termination, truncation, info = env.last()
        over = termination or truncation
        env.step(None if over else env.action_space(agent).sample(observation["action_mask"]))

## Facts

    made by            env(), raw_env(), parallel_env(); pettingzoo.make("aec" | "parallel", "undertake/no_thanks-v0")
    agents             player_0 to player_{n-1}, n from 2 to 7, in the order of sitting, clockwise
    actions            Discrete(3): 0 pass, 1 take, 2 wait
    observation        Dict(observation=Box(0, 1, (D,), float32), action_mask=Box(0, 1, (3,), int8))
    state              Box(0, 1, (S,), float32)
    a game             24 cards are taken; about 60 to 120 decisions with four players that mean it
    hidden             nine removed cards, the order of the deck, the others' chips
    chance             the deal alone: the deck's order and who begins
    info               {"score": the agent's score as if the game ended now}; low is good
    parallelizable     no: the players act in turn. parallel_env() is written for it, the others wait

## Observation

Seats are relative: the first is the agent's own, then clockwise. Seats that nobody has are zero, so D does not depend
on the number of players. Numbers are counts divided by the count that stands for 1.0. `view="table"` is what lies in
sight; `view="recall"` adds what a player with a perfect memory knows: everyone's chips, and how every seat has decided
so far.

    slice           view="table"  view="recall"  shape   1.0 is  meaning
    all             0:408         0:443
    cards           0:231         0:231          7 x 33  1       cards in front of each seat, 3 to 35
    seen            231:264       231:264        33      1       cards turned up so far, the middle card included
    card            264:297       264:297        33      1       the middle card, one-hot
    pot_at_least    297:321       297:321        24      1       chips on the card are at least 1, 2, ..., 24
    chips_at_least  321:345       321:345        24      1       own chips are at least 1, 2, ..., 24
    card_number     345:346       345:346        1       35      number of the middle card, 0 where there is none
    pot             346:347       346:347        1       255     chips on the middle card
    cards_left      347:348       347:348        1       33      cards still to be turned up
    removed         348:349       348:349        1       33      cards set aside unseen
    players         349:355       349:355        6       1       number of players, one-hot from 2
    unseen_below    355:356       355:356        1       1       the card one below the middle card has not been seen
    unseen_above    356:357       356:357        1       1       the card one above the middle card has not been seen
    taker_goes_on   357:358       357:358        1       1       whoever takes acts again (after_take is 'taker')
    open_chips      358:359       358:359        1       1       chips lie open
    to_act          359:366       359:366        7       1       the seat to act
    has_left        366:373       366:373        7       1       the seat's player has left
    chips_known     373:380       373:380        7       1       the seat's chips are known
    chips           380:387       380:387        7       255     the seat's chips, 0 where unknown
    card_score      387:394       387:394        7       255     the seat's card score, at most 255
    change          394:401       394:401        7       71      change of the seat's card score by the middle card,
                                                                 plus 36
    price           401:408       401:408        7       95      that change less the chips on the card, plus 60, at
                                                                 least 0
    broke           -             408:415        7       1       the seat has no chip
    takes           -             415:422        7       33      cards the seat took of its own will
    refusals        -             422:429        7       255     times the seat refused, at most 255
    dearest         -             429:436        7       95      dearest price it took, plus 60, at least 0; 0 if it
                                                                 took none
    cheapest        -             436:443        7       95      cheapest price it refused, plus 60, at least 0; 0 if it
                                                                 refused none

The mask is all zeros for an agent that is not to act; in parallel_env(), it allows waiting alone. The same in plain
data is `env.unwrapped.view(agent)`, and `env.unwrapped.history()` lists all that has happened in public.

## Actions

    0  pass   one of the agent's chips goes on the card, and the next agent acts; illegal without a chip
    1  take   the card and the chips on it are the agent's, the next card is turned up, the agent acts again
    2  wait   parallel_env() only, for all but the agent that is to act

`illegal` says what an illegal action does: "terminate" (the game ends for all; the offender is paid a bound that no
game played by the rules can end below: -1 with "rank", -1/n with "win", minus the highest possible score with "score",
the widest possible distance with "margin"; the others nothing), "raise" (ValueError, nothing is played) or "random" (a
random legal action is played instead). raw_env() raises.

## Rewards

All are paid at the end, by the final scores: card score less chips.

    "rank"     (n + 1 - 2r) / (n - 1) for rank r, 1 the best; ties share the mean of their ranks; the sum is zero
    "win"      1/k - 1/n for each of k winners, -1/n for the others
    "score"    minus the score
    "margin"   the mean of the others' scores less one's own

`env.unwrapped.resign(agent)`: who leaves ranks below all others, the earlier the lower, and is paid at once.

## Options

    num_players=4         2 to 7
    view="table"          or "recall"
    reward="rank"         or "win", "score", "margin"
    after_take="taker"    the taker acts on the next card; "left": the player to the left does
    open_chips=False      True: chips lie open in the table view too
    lowest=3, highest=35  the cards of the deck, within 3 to 35
    removed=9             cards set aside unseen
    chips=None            chips of each player at the start, 0 to 36; None: 11, with six players 9, with seven 7
    render_mode=None      "ansi": render() returns text; "human": every position is printed
    illegal="terminate"   or "raise", "random"; not of raw_env()

`reset(options={"deck": [...], "first_player": 0})` fixes a deal: the cards in the order of turning up, then those
removed.

## State

`env.state()` is the whole truth, seats as numbered at the table: for critics that see more than the players.

    slice          state()  shape   1.0 is  meaning
    all            0:395
    cards          0:231    7 x 33  1       cards in front of each seat, 3 to 35
    card           231:264  33      1       the middle card, one-hot
    to_come        264:297  33      33      place of each card among those still to be turned up, 1 the next
    removed        297:330  33      1       cards set aside unseen
    pot            330:331  1       255     chips on the middle card
    chips          331:338  7       255     the seat's chips
    card_score     338:345  7       255     the seat's card score, at most 255
    to_act         345:352  7       1       the seat to act
    left           352:359  7       7       the order in which the players have left, 0 while in the game
    takes          359:366  7       33      cards the seat took of its own will
    refusals       366:373  7       255     times the seat refused, at most 255
    dearest        373:380  7       95      dearest price it took, plus 60, at least 0; 0 if it took none
    cheapest       380:387  7       95      cheapest price it refused, plus 60, at least 0; 0 if it refused none
    players        387:393  6       1       number of players, one-hot from 2
    taker_goes_on  393:394  1       1       whoever takes acts again (after_take is 'taker')
    open_chips     394:395  1       1       chips lie open

## How this differs from the game in the box

Two players may play, with 11 chips each. A player may resign, and a time limit has a default action
(`env.unwrapped.default_action(agent)`: pass while there is a chip, else take). The options `after_take`, `open_chips`,
`lowest`, `highest`, `removed` and `chips` play variants and games small enough to be solved; their defaults are the
box's rules.

## Versions

    v0  first version
"""

from __future__ import annotations

from undertake.api.aec import AECFace
from undertake.api.page import strict_names
from undertake.api.parallel import ParallelFace
from undertake.no_thanks import GAME
from undertake.no_thanks.options import NoThanksOptions

__all__ = ["env", "parallel_env", "raw_env"]


@strict_names
def env(
    num_players: int = 4,
    view: str = "table",
    reward: str = "rank",
    after_take: str = "taker",
    open_chips: bool = False,
    lowest: int = 3,
    highest: int = 35,
    removed: int = 9,
    chips: int | None = None,
    render_mode: str | None = None,
    illegal: str = "terminate",
) -> AECFace:
    """The AEC environment; raises ValueError or TypeError in one line for an option that cannot be (see above)."""
    options = NoThanksOptions(num_players, after_take, open_chips, lowest, highest, removed, chips)
    return AECFace(GAME, options, view=view, reward=reward, render_mode=render_mode, illegal=illegal)


@strict_names
def raw_env(
    num_players: int = 4,
    view: str = "table",
    reward: str = "rank",
    after_take: str = "taker",
    open_chips: bool = False,
    lowest: int = 3,
    highest: int = 35,
    removed: int = 9,
    chips: int | None = None,
    render_mode: str | None = None,
) -> AECFace:
    """The AEC environment without checks of the order of calls; an illegal action raises ValueError."""
    options = NoThanksOptions(num_players, after_take, open_chips, lowest, highest, removed, chips)
    return AECFace(GAME, options, view=view, reward=reward, render_mode=render_mode, illegal=None)


@strict_names
def parallel_env(
    num_players: int = 4,
    view: str = "table",
    reward: str = "rank",
    after_take: str = "taker",
    open_chips: bool = False,
    lowest: int = 3,
    highest: int = 35,
    removed: int = 9,
    chips: int | None = None,
    render_mode: str | None = None,
    illegal: str = "terminate",
) -> ParallelFace:
    """The Parallel environment: all but the agent that is to act wait."""
    options = NoThanksOptions(num_players, after_take, open_chips, lowest, highest, removed, chips)
    return ParallelFace(GAME, options, view=view, reward=reward, render_mode=render_mode, illegal=illegal)
