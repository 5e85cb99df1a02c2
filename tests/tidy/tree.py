"""The files of a source tree, and what a check says about them."""

import os
from functools import cached_property
from pathlib import Path
from typing import Iterator, NamedTuple, Optional

from rules import IGNORED_DIRECTORIES


class Finding(NamedTuple):
    path: str
    line: int
    message: str


class File:
    def __init__(self, root: Path, path: str):
        self.root = root
        self.path = path  # from the root, with slashes
        self.name = path.rsplit("/", 1)[-1]
        self.directory = path.rpartition("/")[0]

    @cached_property
    def text(self) -> Optional[str]:
        """None for a binary file."""
        data = (self.root / self.path).read_bytes()
        if b"\0" in data[:8192]:
            return None
        return data.decode("utf-8", errors="replace")

    @property
    def is_cpp(self) -> bool:
        return self.name.endswith((".h", ".cc"))

    @property
    def is_executable(self) -> bool:
        return os.access(self.root / self.path, os.X_OK)


class Tree:
    def __init__(self, root: Path):
        self.root = root
        self.files = [File(root, path) for path in sorted(_walk(root))]
        self.paths = {file.path for file in self.files}

    def cpp(self) -> Iterator[File]:
        return (file for file in self.files if file.is_cpp)

    def texts(self) -> Iterator[File]:
        return (file for file in self.files if file.text is not None)

    def ending(self, *endings: str) -> Iterator[File]:
        return (file for file in self.files if file.name.endswith(endings))


def _walk(root: Path) -> Iterator[str]:
    for directory, subdirectories, names in os.walk(root):
        subdirectories[:] = [
            name
            for name in subdirectories
            if name not in IGNORED_DIRECTORIES and name != ".git" and name != ".cache"
        ]
        for name in names:
            yield Path(directory, name).relative_to(root).as_posix()
