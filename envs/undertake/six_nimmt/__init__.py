"""6 nimmt!: rules, views, bots and rendering, bound into one `GAME`."""

from undertake.core import game as core
from undertake.six_nimmt import bots, hidden, options, render, rules, view, view_imagine

core.implement(
    rules.STATE,
    *(rules.shuffle, rules.start, rules.play, rules.resign, rules.is_legal, rules.score, rules.paid),
    *(rules.random_legal, rules.end_after_round, view.see, hidden.reveal),
)
core.implement(view.VIEW, view.legal, view.encode, view_imagine.imagine, view.default_action, bots.choose)

GAME = core.Game(
    name="six_nimmt",
    title="6 nimmt!",
    min_players=2,
    max_players=rules.MAX_PLAYERS,
    num_actions=rules.NUM_ACTIONS,
    wait=rules.WAIT,
    state_dtype=rules.STATE,
    view_dtype=view.VIEW,
    layouts={"table": view.TABLE_LAYOUT, "recall": view.RECALL_LAYOUT},
    whole_layout=render.WHOLE_LAYOUT,
    hidden_layout=hidden.HIDDEN_LAYOUT,
    options=options.SixNimmtOptions,
    lay=options.lay,
    table=render.table,
    sight=render.sight,
    whole=render.whole,
    text=render.text,
    opening=render.opening,
    events=render.events,
    action_name=render.action_name,
    bots=bots.BOTS,
)
