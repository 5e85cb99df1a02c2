"""What the recipes share: where the service is, and a word for what has to hold."""

import sys


def address() -> str:
    return sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7420"


def require(holds: bool, what: str) -> None:
    """Ends the program where what it promises does not hold."""
    if not holds:
        sys.exit(f"does not hold: {what}")
