"""No Thanks! and 6 nimmt! for people who train agents.

    from undertake import no_thanks_v0, six_nimmt_v0    # PettingZoo: env(), raw_env(), parallel_env()
    pettingzoo.make("aec", "undertake/no_thanks-v0")    # and "parallel", "undertake/six_nimmt-v0"
    gymnasium.make("undertake:undertake/NoThanks-v0")   # one seat learns; make_vec; and "undertake/SixNimmt-v0"
    undertake.make_batch("no_thanks", num_envs=1024)    # the compiled engine
    undertake.make_policy("no_thanks/tuned")            # a scripted baseline, a checkpoint, your own
    undertake.arena.play(...)                           # matches
    undertake.exact.best_response(...)                  # exact values of small games

Importing the package registers the environments and is light: what is named above is loaded on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import gymnasium
import pettingzoo

if TYPE_CHECKING:
    import undertake.arena as arena
    import undertake.exact as exact
    import undertake.no_thanks_v0 as no_thanks_v0
    import undertake.six_nimmt_v0 as six_nimmt_v0
    from undertake.arena.policy import make_policy
    from undertake.core.batch import make_batch

__all__ = ["__version__", "arena", "exact", "make_batch", "make_policy", "no_thanks_v0", "six_nimmt_v0"]

__version__ = "0.1.0"

_LATE = {
    "arena": "undertake.arena",
    "exact": "undertake.exact",
    "no_thanks_v0": "undertake.no_thanks_v0",
    "six_nimmt_v0": "undertake.six_nimmt_v0",
    "make_batch": "undertake.core.batch:make_batch",
    "make_policy": "undertake.arena.policy:make_policy",
}


def __getattr__(name: str) -> Any:
    """Load what is named in `__all__` when it is first asked for."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _LATE[name].partition(":")
    found = importlib.import_module(module)
    found = getattr(found, attribute) if attribute else found
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATE})


def _register() -> None:
    """Enter both games in Gymnasium's registry, and in both of PettingZoo's, which it has since 1.27."""
    for game, name, bot in (("no_thanks", "NoThanks", "tuned"), ("six_nimmt", "SixNimmt", "closest_gap")):
        if f"undertake/{name}-v0" not in gymnasium.registry:
            gymnasium.register(
                f"undertake/{name}-v0",
                entry_point="undertake.api.single_agent:SingleAgentEnv",
                vector_entry_point="undertake.api.vector:LearnerVectorEnv",
                kwargs={"game": game, "opponents": f"{game}/{bot}"},
            )
    if not hasattr(pettingzoo, "register"):
        return
    for game in ("no_thanks", "six_nimmt"):
        for kind, maker in (("aec", "env"), ("parallel", "parallel_env")):
            name = f"undertake/{game}-v0"
            if name not in getattr(pettingzoo, f"{kind}_registry"):
                pettingzoo.register(kind, name, f"undertake.{game}_v0:{maker}")


_register()
