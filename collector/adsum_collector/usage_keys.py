"""Keys of 61 bits, numbered in the order of their coming, in twenty bytes each."""

from __future__ import annotations

from array import array
from typing import Final

FEWEST_CELLS: Final = 1 << 16


class Keys:
    """A hash table, because a dict of as many whole numbers takes over a hundred bytes a key."""

    def __init__(self) -> None:
        self._keys = array("Q")
        self._cells = array("I", bytes(4 * FEWEST_CELLS))
        self._mask = FEWEST_CELLS - 1

    def __len__(self) -> int:
        return len(self._keys)

    def place(self, key: int) -> int:
        """The number of a key that is known; one that is not gets the next, and -1 is said."""
        cells, keys, mask = self._cells, self._keys, self._mask
        at = key & mask
        while number := cells[at]:
            if keys[number - 1] == key:
                return number - 1
            at = (at + (key >> 40 | 1)) & mask
        keys.append(key)
        cells[at] = len(keys)
        if len(keys) * 4 > len(cells) * 3:
            self._grow()
        return -1

    def _grow(self) -> None:
        size = len(self._cells) * 2
        cells, mask = array("I", bytes(4 * size)), size - 1
        for number, key in enumerate(self._keys, 1):
            at = key & mask
            while cells[at]:
                at = (at + (key >> 40 | 1)) & mask
            cells[at] = number
        self._cells, self._mask = cells, mask
