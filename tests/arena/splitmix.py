"""The protocol's deals once more, in plain Python from `docs/protocol.md` alone."""

import hashlib
from collections.abc import Iterator

MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15


def mix(word: int) -> int:
    word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & MASK
    return word ^ (word >> 31)


def stream(key: int, index: int) -> int:
    return mix((mix(key) + (index + 1) * GAMMA) & MASK)


def words(key: int) -> Iterator[int]:
    while True:
        key = (key + GAMMA) & MASK
        yield mix(key)


def deal_key(game: str, deal_set: str, index: int) -> int:
    root = int.from_bytes(hashlib.sha256(f"undertake/deals/1/{game}".encode()).digest()[:8], "big")
    return stream(root, index + {"dev": 0, "test": 2**32}[deal_set])


def shuffled(cards: list[int], dealt: int, source: Iterator[int]) -> list[int]:
    """The first `dealt` places filled one by one, each by a swap with a card drawn from those not yet placed."""
    deck = list(cards)
    for i in range(dealt):
        j = i + ((next(source) >> 32) * (len(deck) - i) >> 32)
        deck[i], deck[j] = deck[j], deck[i]
    return deck


def no_thanks(deal_set: str, index: int, players: int = 4) -> tuple[list[int], int]:
    source = words(stream(deal_key("no_thanks", deal_set, index), 0))
    deck = shuffled(list(range(3, 36)), 24, source)
    return deck, (next(source) >> 32) * players >> 32


def six_nimmt(deal_set: str, index: int, players: int = 4) -> tuple[list[int], int]:
    source = words(stream(deal_key("six_nimmt", deal_set, index), 0))
    return shuffled(list(range(1, 105)), 10 * players + 4, source), 0


DEALS = {"no_thanks": no_thanks, "six_nimmt": six_nimmt}
