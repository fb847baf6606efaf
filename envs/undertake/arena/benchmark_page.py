"""What a benchmark says: targets, places and pages in Markdown, all from the plain data of `benchmark.to_table`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from undertake.core.game import GAMES, get_game

__all__ = [
    "KNOWN",
    "TARGETS",
    "Target",
    "known_table",
    "leaderboard_page",
    "merged",
    "place",
    "read_tables",
    "report_page",
    "targets",
    "verdicts",
]

KNOWN = Path(__file__).resolve().parents[3] / "docs" / "measured" / "leaderboard"
"""The leaderboard's tables in a working copy; an installed package is without them."""

Table = Mapping[str, Any]
Row = Mapping[str, Any]

ANY = ("*",)
"""Every scripted baseline of the game."""


@dataclass(frozen=True)
class Target:
    """A figure that a policy is to reach, with the end of its interval that is worse.

    Attributes:
        figure: "win_share", "score" or "invasion" in a field, or "own_score"
        fields: the fields meant: all of them have to reach it
        floor: the least that is asked for
        goal: what is aimed at
        beyond: more than that
    """

    figure: str
    fields: tuple[str, ...]
    floor: float | None
    goal: float | None = None
    beyond: float | None = None

    @property
    def at_most(self) -> bool:
        """Whether less is better."""
        return self.figure != "win_share"

    def reached(self, value: Mapping[str, float]) -> str:
        """The highest of the three that the interval reaches, "not met", or "" where nothing is asked for."""
        found = "not met" if self.floor is not None else ""
        for name in ("floor", "goal", "beyond"):
            wanted = getattr(self, name)
            if wanted is not None and (value["high"] <= wanted if self.at_most else value["low"] >= wanted):
                found = name
        return found


# The project's own targets for a policy of one forward pass among four players (its issue 4).
TARGETS: Mapping[str, tuple[Target, ...]] = {
    "no_thanks": (
        Target("win_share", ("milker_win",), 0.45, 0.52, 0.60),
        Target("win_share", ("milker_score",), 0.49, 0.56, 0.65),
        Target("win_share", ("tuned",), 0.36, 0.42, 0.50),
        Target("win_share", ("half_price",), 0.46, 0.52, 0.58),
        Target("win_share", ("threshold_0", "threshold_3", "threshold_6", "threshold_9"), 0.40, 0.50, 0.62),
        Target("invasion", ANY, 0.09, 0.06, 0.04),
        Target("own_score", (), 42, 40),
    ),
    "six_nimmt": (
        Target("score", ("random",), 6.5, 5.5, 5.0),
        Target("win_share", ("random",), 0.53, 0.57, 0.60),
        Target("score", ("closest_gap",), 9.8, 9.0, 8.0),
        Target("win_share", ("closest_gap",), 0.34, 0.39, 0.43),
        Target("score", ("highest",), 6.0, 5.2),
        Target("win_share", ("highest",), 0.24, 0.28, 0.32),
        Target("invasion", ("closest_gap",), 0.14, 0.11, 0.08),
        Target("invasion", ("highest",), 0.08, 0.05, 0.04),
        Target("win_share", ("rollout:300total:random",), 0.22, 0.27, 0.32),
    ),
}


def targets(game: str, players: int) -> tuple[Target, ...]:
    """What is asked for at a size: `TARGETS` at four players, else parity in every baseline's field.

    In 6 nimmt! the field of `highest`, in which all do badly, is stated by itself.
    """
    if players == 4:
        return TARGETS[game]
    apart = tuple(name for name in get_game(game).bots if (game, name) == ("six_nimmt", "highest"))
    others = tuple(name for name in get_game(game).bots if name not in apart)
    return (
        Target("win_share", others, 1 / players),
        *(Target("win_share", (name,), None) for name in apart),
    )


def verdicts(game: str, players: int, row: Row) -> list[dict[str, Any]]:
    """Each target beside the figure measured: of several fields the one in which it is hardest to reach."""
    cells = {cell["field"]: cell for cell in row["cells"]}
    found = []
    for target in targets(game, players):
        if target.figure == "own_score":
            values = {"": row["own_score"]}
        else:
            fields = tuple(get_game(game).bots) if target.fields == ANY else target.fields
            values = {name: cells[name][target.figure] for name in fields if name in cells}
        if not values:
            continue
        if target.at_most:
            field = max(values, key=lambda name: values[name]["high"])
        else:
            field = min(values, key=lambda name: values[name]["low"])
        found.append(
            {
                "what": _what(game, target, field),
                "value": values[field],
                "floor": target.floor,
                "goal": target.goal,
                "beyond": target.beyond,
                "reached": target.reached(values[field]),
            }
        )
    return found


def _what(game: str, target: Target, hardest: str) -> str:
    several = len(target.fields) > 1 or target.fields == ANY
    here = f" (here {hardest})" if several else ""
    if target.figure == "own_score":
        return "mean score of its own table, at most"
    if target.figure == "invasion":
        who = "any baseline" if target.fields == ANY else target.fields[0]
        return f"win share of {who} among its copies, at most{here}"
    what = "win share" if target.figure == "win_share" else "bulls" if game == "six_nimmt" else "points"
    most = ", at most" if target.at_most else ""
    if not several:
        return f"{what} in a field of {target.fields[0]}{most}"
    listed = ", ".join(target.fields)
    if len(target.fields) > 4:
        listed = "every baseline but highest" if game == "six_nimmt" else "every baseline"
    return f"{what} in the worst field of {listed}{most}{here}"


def read_tables(folder: Path) -> dict[tuple[str, int], Table]:
    """The tables in a folder by game and players; what cannot be read raises ValueError in one line."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
            found[str(table["game"]), int(table["players"])] = table
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path} holds no table of the benchmark; measure it again or remove it") from None
    return found


def known_table(table: Table, folder: Path = KNOWN) -> Table | None:
    """The leaderboard's table for the same game, players, view and set of deals; None where there is none."""
    found = read_tables(folder).get((table["game"], table["players"]))
    if found is None or any(found[name] != table[name] for name in ("protocol", "view", "set")):
        return None
    return found


def merged(table: Table, known: Table | None) -> list[Row]:
    """The rows of `table` and the known rows of all other agents, the best mean over its pool first."""
    own = {row["agent"] for row in table["rows"]}
    others = [] if known is None else [row for row in known["rows"] if row["agent"] not in own]
    return sorted([*table["rows"], *others], key=lambda row: -float(row["pool"]["win_share"]["mean"]))


def place(table: Table, known: Table | None) -> str:
    """One line on where the only row of `table` stands among the known ones, in the fields that both pools have."""
    if known is None:
        return "no leaderboard is at hand for this game, size, view and set of deals"
    common = [field for field in table["pool"] if field in known["pool"]]
    shares = {
        row["agent"]: [cell["win_share"]["mean"] for cell in row["cells"] if cell["field"] in common]
        for row in merged(table, known)
    }
    agent, shares = table["rows"][0]["agent"], {name: found for name, found in shares.items() if found}
    if agent not in shares or len(shares) == 1:
        return f"not ranked: the fields of the leaderboard's pool are {', '.join(known['pool'])}"
    mean = sum(sum(found) / len(found) > sum(shares[agent]) / len(shares[agent]) for found in shares.values())
    worst = sum(min(found) > min(shares[agent]) for found in shares.values())
    text = (
        f"place {mean + 1} of {len(shares)} by the mean over the pool, {worst + 1} of {len(shares)} by the worst field"
    )
    if common != table["pool"] or common != known["pool"]:
        text += f", of the {len(common)} fields that the leaderboard has too"
    if next(iter(known["deals_sha256"].values())) != next(iter(table["deals_sha256"].values())):
        text += f" (the others on {next(iter(known['deals_sha256']))} deals)"
    return text


def _share(value: Mapping[str, float], digits: int = 3) -> str:
    return f"{value['mean']:.{digits}f} ± {value['high'] - value['mean']:.{digits}f}"


def _grid(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [header, ["---"] + ["--:"] * (len(header) - 1), *rows]
    return [f"| {' | '.join(line)} |" for line in lines]


def _track(row: Row) -> str:
    track = f"search, {row['ms_a_decision']:.2g} ms" if row["ms_a_decision"] is not None else row["track"]
    return f"{track}, table view" if row["view"] == "table" else str(track)


def _headline(row: Row) -> list[str]:
    worst, invasive = row["worst"], row["largest_invasion"]
    return [
        _share(row["pool"]["win_share"]),
        f"{_share(worst['win_share'])} ({worst['field']})",
        f"{_share(invasive['invasion'])} ({invasive['field']})",
        _share(row["own_score"], 2),
    ]


_HEADLINE = ["win share, mean over the pool", "in the worst field", "largest invasion", "score of its own table"]


def _where(table: Table) -> str:
    measured = table["measured"]
    hashes = "; ".join(f"{deals} deals `{sha}`" for deals, sha in table["deals_sha256"].items())
    return f"{measured['date']}, {measured['machine']}, `{measured['command']}`. Deals ({table['set']}): {hashes}."


def verdict_lines(game: str, players: int, row: Row) -> list[str]:
    """The targets as a table in Markdown; empty for a searching agent, for which there are none."""
    if row["track"] == "search":
        return []
    found = verdicts(game, players, row)

    def number(value: float | None) -> str:
        return "" if value is None else f"{value:.3g}"

    rows = []
    for each in found:
        digits = 3 if each["value"]["mean"] < 2 else 2
        levels = [number(each[name]) for name in ("floor", "goal", "beyond")]
        rows.append([each["what"], _share(each["value"], digits), *levels, each["reached"]])
    return _grid(["target", "measured", "floor", "goal", "beyond", "reached by the interval's worse end"], rows)


def report_page(
    tables: Sequence[Table],
    known: Mapping[int, Table | None],
    pictures: Mapping[int, Sequence[tuple[str, str]]],
) -> str:
    """report.md of one agent: for each size the headline, its place, the targets, every field, and the pictures.

    Args:
        tables: one a size, with the agent's row alone.
        known: by players, the leaderboard's table.
        pictures: by players, pairs of file name and caption.
    """
    game, agent = get_game(tables[0]["game"]), tables[0]["rows"][0]["agent"]
    lines = [f"# {agent} · {game.title}"]
    for table in tables:
        n, row = table["players"], table["rows"][0]
        lines += ["", f"## {n} players", ""]
        lines += _grid(["track", *_HEADLINE], [[_track(row), *_headline(row)]])
        lines += ["", f"Parity is {1 / n:.3f}; {place(table, known[n])}."]
        judged = verdict_lines(game.name, n, row)
        if judged:
            lines += ["", *judged]
        figures = ("win_share", "rank", "score", "margin", "field_score", "invasion")
        body = [
            [cell["field"], str(cell["deals"]), *(_share(cell[name], 3 if abs(cell[name]["mean"]) < 2 else 2)
             for name in figures)]
            for cell in row["cells"]
        ]  # fmt: skip
        mean = [_share(row["pool"][name], 3 if abs(row["pool"][name]["mean"]) < 2 else 2) for name in figures]
        body.append(["**mean of the fields**", "", *mean])
        lines += ["", *_grid(["in a field of", "deals", *(name.replace("_", " ") for name in figures)], body)]
        for file, caption in pictures.get(n, ()):
            lines += ["", f"![{caption}]({file})"]
        lines += ["", _where(table)]
    lines += ["", f"Intervals are 95 %, over deals. View {tables[0]['view']}. What the figures mean: docs/protocol.md."]
    return "\n".join(lines) + "\n"


_INTRO = """# Leaderboard

<!-- made by docs/generate.py from docs/measured/leaderboard; `undertake benchmark --leaderboard` measures it anew -->

Every agent in every field of the pool and every field's bot among the agent's copies, in all seats of the same test
deals, view *recall*, by [the protocol](protocol.md): means and 95 % intervals over deals. *Worst field* is the field in
which the agent's win share is least, *largest invasion* the most that one of the pool wins at a table of its copies;
its own field, at parity by symmetry, is left out of both and of the mean. Low scores are good. No column ranks by
itself: what wins in the mean may lose in a field that is made for it. Searching is a track of its own, with the CPU
time of a decision. How an agent of yours gets a row: [the benchmark](benchmark.md)."""


def leaderboard_page(tables: Mapping[tuple[str, int], Table]) -> str:
    """docs/leaderboard.md from the tables of both games."""
    lines = [_INTRO]
    for name in GAMES:
        sizes = {n: table for (game, n), table in sorted(tables.items()) if game == name}
        for n in sorted(sizes, key=lambda n: (n != 4, n))[:1]:
            lines += _main_size(sizes.pop(n))
        if sizes:
            lines += _other_sizes(sizes)
    lines += ["", "## How it was measured", ""]
    body = []
    for (name, n), table in sorted(tables.items()):
        hashes = ", ".join(f"{deals}: `{sha}`" for deals, sha in table["deals_sha256"].items())
        measured = table["measured"]
        where = [measured["date"], measured["machine"], f"`{measured['command']}`"]
        body.append([get_game(name).title, str(n), hashes, *where])
    lines += _grid(["game", "players", f"{_sets(tables)} deals and their sha256", "date", "machine", "command"], body)
    return "\n".join(lines) + "\n"


def _sets(tables: Mapping[tuple[str, int], Table]) -> str:
    return " and ".join(sorted({table["set"] for table in tables.values()}))


def _main_size(table: Table) -> list[str]:
    n, rows, pool = table["players"], table["rows"], table["pool"]
    lines = ["", f"## {get_game(table['game']).title}, {n} players", "", f"Parity is {1 / n:.3f}.", ""]
    lines += _grid(["agent", "track", *_HEADLINE], [[row["agent"], _track(row), *_headline(row)] for row in rows])
    for figure, title in (
        ("win_share", "Win share of the agent (row) in a field of the other (column)"),
        ("invasion", "Win share of one of the other (column) among copies of the agent (row)"),
    ):
        body = []
        for row in rows:
            cells = {cell["field"]: cell[figure] for cell in row["cells"]}
            body.append([row["agent"], *(f"{cells[field]['mean']:.2f}" if field in cells else "" for field in pool)])
        lines += ["", f"{title}:", "", *_grid(["", *pool], body)]
    return lines


def _other_sizes(sizes: Mapping[int, Table]) -> list[str]:
    """Mean and worst field of each agent at the sizes beside the main one."""
    title = get_game(next(iter(sizes.values()))["game"]).title
    agents = list(dict.fromkeys(row["agent"] for table in sizes.values() for row in table["rows"]))
    header = ["agent"]
    for n in sizes:
        header += [f"{n} players (parity {1 / n:.2f}): mean", "worst field"]
    body = []
    for agent in agents:
        line = [agent]
        for table in sizes.values():
            row = next((row for row in table["rows"] if row["agent"] == agent), None)
            line += _headline(row)[:2] if row else ["", ""]
        body.append(line)
    return ["", f"## {title}, other sizes", "", *_grid(header, body)]
