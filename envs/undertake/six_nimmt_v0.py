"""6 nimmt! (Take 5) as a PettingZoo environment.

All players choose a card in secret; the cards are shown and placed lowest first, each on the row whose last card is the
largest one below it. Whoever places the sixth card of a row takes the other five, whoever is below all rows takes one
of their choice, and the bulls on the cards taken count. The fewest bulls win.

    from undertake import six_nimmt_v0

    env = six_nimmt_v0.parallel_env(num_players=4)
    observations, infos = env.reset(seed=1)
    while env.agents:
        actions = {agent: env.action_space(agent).sample(observations[agent]["action_mask"]) for agent in env.agents}
        observations, rewards, terminations, truncations, infos = env.step(actions)

## Facts

    made by            env(), raw_env(), parallel_env(); pettingzoo.make("aec" | "parallel", "undertake/six_nimmt-v0")
    agents             player_0 to player_{n-1}, n from 2 to 10, in the order of sitting, clockwise
    actions            Discrete(109): 0-103 play card 1-104, 104-107 take row 0-3, 108 wait
    observation        Dict(observation=Box(0, 1, (D,), float32), action_mask=Box(0, 1, (109,), int8))
    state              Box(0, 1, (S,), float32)
    a game             hands of ten tricks until somebody has 66 bulls, or one hand with length="hand"
    hidden             the others' hands and bulls of this hand, the cards not dealt, a chosen card until all are shown
    chance             the deals alone
    info               {"score": the agent's bulls so far, those of the running hand included}; low is good
    parallelizable     no: a row is chosen by one player, after the cards are seen. parallel_env() is written for it

In parallel_env() all choose a card in one step; where the lowest card is below all rows, the next step is its owner's
choice of a row, while the others wait. In env() the seats choose in the order player_0, player_1, ..., hidden from each
other, and then, where needed, the chooser of the row acts.

## Observation

Seats are relative: the first is the agent's own, then clockwise. Seats that nobody has are zero, so D does not depend
on the number of players. Numbers are counts divided by the count that stands for 1.0. `view="table"` is what lies in
sight; `view="recall"` adds what a player with a perfect memory knows of this hand: everyone's bulls, and every card
shown.

    slice          view="table"  view="recall"  shape    1.0 is  meaning
    all            0:445         0:575
    hand           0:104         0:104          104      1       own hand, cards 1 to 104
    unseen         104:208       104:208        104      1       cards that may still be anywhere
    row_cards      208:228       208:228        4 x 5    104     cards of each row, 0 for an empty place
    row_length     228:232       228:232        4        5       cards in each row
    row_bulls      232:236       232:236        4        40      bulls in each row
    sorted_end     236:240       236:240        4        104     last cards, lowest first
    sorted_length  240:244       240:244        4        5       cards in these rows
    sorted_bulls   244:248       244:248        4        40      bulls in these rows
    hand_cards     248:368       248:368        10 x 12  104     for each own card, lowest first: number; its bulls; 1
                                                                 if below all rows; then of the row it goes to now: free
                                                                 places, bulls, gap to its end, unseen cards in that
                                                                 gap, unseen cards above the card; and which of the rows
                                                                 by their ends it is, one-hot; 0 for an empty place
    choosing_row   368:369       368:369        1        1       a row is to be chosen, by the seat marked below
    chooser        369:379       369:379        10       1       the seat that has to choose a row
    shown          379:389       379:389        10       104     cards not yet placed: own, and all while a row is
                                                                 chosen
    players        389:398       389:398        9        1       number of players, one-hot from 2
    tricks_left    398:399       398:399        1        10      tricks of this hand not finished
    num_cards      399:400       399:400        1        104     cards of the deck
    num_rows       400:401       400:401        1        4       rows
    row_size       401:402       401:402        1        5       cards that a row holds
    single_hand    402:403       402:403        1        1       the game ends with this hand (length is 'hand')
    cheapest_row   403:404       403:404        1        1       the cheapest row is taken without asking
    limit          404:405       404:405        1        255     total that ends a match
    has_left       405:415       405:415        10       1       the seat's player has left
    totals         415:425       415:425        10       255     bulls of finished hands, at most 255
    bulls_known    425:435       425:435        10       1       the seat's bulls of this hand are known
    bulls          435:445       435:445        10       171     the seat's bulls of this hand, 0 where unknown
    last           -             445:455        10       104     the card each seat showed last in this hand
    lowest         -             455:465        10       104     the lowest card each seat has shown in this hand
    highest        -             465:475        10       104     the highest card each seat has shown in this hand
    played         -             475:575        10 x 10  104     the cards each seat has shown in this hand, by trick

The mask is all zeros for an agent that is not to act; in parallel_env(), it allows waiting alone. The same in plain
data is `env.unwrapped.view(agent)`, and `env.unwrapped.history()` lists all that has happened in public.

## Actions

    0-103    play the card 1-104 of one's hand
    104-107  take row 0-3, the topmost being 0; only where one's card is below all rows
    108      wait: parallel_env() only, for those that have nothing to decide

`illegal` says what an illegal action does: "terminate" (the game ends for all; the offender is paid a bound that no
game played by the rules can end below: -1 with "rank", -1/n with "win", minus the most bulls possible with "score", the
widest possible distance with "margin"; the others nothing), "raise" (ValueError, nothing is played) or "random" (a
random legal action is played instead). raw_env() raises.

## Rewards

    "rank"     (n + 1 - 2r) / (n - 1) for rank r, 1 the best; ties share the mean of their ranks; the sum is zero
    "win"      1/k - 1/n for each of k winners, -1/n for the others
    "score"    minus the bulls, paid as they are taken
    "margin"   the mean of the others' bulls less one's own

All but "score" are paid at the end. `env.unwrapped.resign(agent)`: who leaves ranks below all others, the earlier the
lower, and is paid at once; the hand is out of play, a card that is chosen and not yet placed is withdrawn.

## Options

    num_players=4         2 to 10
    view="table"          or "recall"
    reward="rank"         or "win", "score", "margin"
    length="match"        to the limit; "hand": one hand
    limit=66              the total that ends a match, 1 to 255
    deck="full"           104 cards; "reduced": only 1 to hand_size * n + num_rows, so that all know which are in play
    row_choice="player"   "cheapest": the row with fewest bulls (then fewest cards, then the topmost) is taken unasked
    hand_size=10          cards of a hand, 1 to 10
    num_rows=4            1 to 4
    row_size=5            cards that a row holds, 1 to 5
    num_cards=None        cards of the full deck, from as many as are dealt to 104; None: 104
    render_mode=None      "ansi": render() returns text; "human": every position is printed
    illegal="terminate"   or "raise", "random"; not of raw_env()

`reset(options={"deck": [...]})` fixes the first hand: its cards in dealing order, the hands of player_0, player_1, ...,
then the starts of the rows, topmost first, then the rest.

## State

`env.state()` is the whole truth, seats as numbered at the table: for critics that see more than the players.

    slice         state()    shape     1.0 is  meaning
    all           0:1435
    hands         0:1040     10 x 104  1       each seat's hand, cards 1 to 104
    chosen        1040:1050  10        104     the card each seat has chosen and not yet placed, 0 for none
    undealt       1050:1154  104       1       cards not dealt in this hand
    withdrawn     1154:1258  104       1       shown cards that went back to the hands of leavers
    rows          1258:1278  4 x 5     104     cards of each row, 0 for an empty place
    bulls         1278:1288  10        171     the seat's bulls of this hand
    totals        1288:1298  10        255     bulls of finished hands, at most 255
    played        1298:1398  10 x 10   104     the cards each seat has shown in this hand, by trick
    to_act        1398:1408  10        1       the seat to act
    choosing_row  1408:1409  1         1       it has to choose a row
    left          1409:1419  10        10      the order in which the players have left, 0 while in the game
    tricks_left   1419:1420  1         10      tricks of this hand not finished
    players       1420:1429  9         1       number of players, one-hot from 2
    num_cards     1429:1430  1         104     cards of the deck
    num_rows      1430:1431  1         4       rows
    row_size      1431:1432  1         5       cards that a row holds
    single_hand   1432:1433  1         1       the game ends with this hand (length is 'hand')
    cheapest_row  1433:1434  1         1       the cheapest row is taken without asking
    limit         1434:1435  1         255     total that ends a match

## How this differs from the game in the box

The game ends at 66 bulls or more, not above 66 (sources differ; `limit` is an option). What others have taken in the
running hand is hidden until its end, as their piles lie face down. A player may resign, and a time limit has a default
action (`env.unwrapped.default_action(agent)`: the lowest card, the row with fewest bulls). `length`, `deck`,
`row_choice`, `hand_size`, `num_rows`, `row_size` and `num_cards` play variants and games small enough to be solved;
their defaults are the box's rules.

## Versions

    v0  first version
"""

from __future__ import annotations

from undertake.api.aec import AECFace
from undertake.api.page import strict_names
from undertake.api.parallel import ParallelFace
from undertake.six_nimmt import GAME
from undertake.six_nimmt.options import SixNimmtOptions

__all__ = ["env", "parallel_env", "raw_env"]


@strict_names
def env(
    num_players: int = 4,
    view: str = "table",
    reward: str = "rank",
    length: str = "match",
    limit: int = 66,
    deck: str = "full",
    row_choice: str = "player",
    hand_size: int = 10,
    num_rows: int = 4,
    row_size: int = 5,
    num_cards: int | None = None,
    render_mode: str | None = None,
    illegal: str = "terminate",
) -> AECFace:
    """The AEC environment; raises ValueError or TypeError in one line for an option that cannot be (see above)."""
    options = SixNimmtOptions(num_players, length, limit, deck, row_choice, hand_size, num_rows, row_size, num_cards)
    return AECFace(GAME, options, view=view, reward=reward, render_mode=render_mode, illegal=illegal)


@strict_names
def raw_env(
    num_players: int = 4,
    view: str = "table",
    reward: str = "rank",
    length: str = "match",
    limit: int = 66,
    deck: str = "full",
    row_choice: str = "player",
    hand_size: int = 10,
    num_rows: int = 4,
    row_size: int = 5,
    num_cards: int | None = None,
    render_mode: str | None = None,
) -> AECFace:
    """The AEC environment without checks of the order of calls; an illegal action raises ValueError."""
    options = SixNimmtOptions(num_players, length, limit, deck, row_choice, hand_size, num_rows, row_size, num_cards)
    return AECFace(GAME, options, view=view, reward=reward, render_mode=render_mode, illegal=None)


@strict_names
def parallel_env(
    num_players: int = 4,
    view: str = "table",
    reward: str = "rank",
    length: str = "match",
    limit: int = 66,
    deck: str = "full",
    row_choice: str = "player",
    hand_size: int = 10,
    num_rows: int = 4,
    row_size: int = 5,
    num_cards: int | None = None,
    render_mode: str | None = None,
    illegal: str = "terminate",
) -> ParallelFace:
    """The Parallel environment: all choose a card at once, then the chooser of a row alone."""
    options = SixNimmtOptions(num_players, length, limit, deck, row_choice, hand_size, num_rows, row_size, num_cards)
    return ParallelFace(GAME, options, view=view, reward=reward, render_mode=render_mode, illegal=illegal)
