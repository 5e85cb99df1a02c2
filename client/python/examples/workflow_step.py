"""A workflow engine runs a workflow again from its start after a crash, and each step has to know
whether it was done. The key is the run's id and the step's: stable, and made by nobody. (The id of a
step is a key and never an attempt id, which is random and lives in memory alone.)

A long step saves its progress for the next attempt, and says when its outbound call really starts
(dispatch_later): a crash before that frees the key at once.
"""

from example import address, require
from idempotency import (
    Attempt,
    CachedResponse,
    Client,
    OperationId,
    RunRequest,
    derive_key,
    fingerprint_bytes,
    random_key,
)


class Crash(Exception):
    """The engine's process dies here."""


class Shop:
    """Stands in for what the steps call."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def do(self, what: str) -> bytes:
        self.done.append(what)
        return what.encode() + b" done"


class Workflow:
    def __init__(self, client: Client, run_id: str, shop: Shop) -> None:
        self._client, self._run_id, self._shop = client, run_id, shop
        # How often the process still dies, by step.
        self.crashes = {"pack": 1}

    def step(self, name: str) -> bytes | None:
        request = RunRequest(
            OperationId("workflow", "shop", derive_key(self._run_id, name)),
            fingerprint=fingerprint_bytes("STEP", name, b"order 4711"),
            operation_ref=self._run_id,
            dispatch_later=True,
        )
        return self._client.run(request, lambda attempt: self._effect(name, attempt)).answer().body

    def _effect(self, name: str, attempt: Attempt) -> CachedResponse:
        attempt.dispatch()
        boxes = int(attempt.progress or b"0")
        for box in range(boxes, 3):
            self._shop.do(f"{name} {box}")
            attempt.save_progress(str(box + 1).encode())
            if self.crashes.get(name, 0) > 0 and box == 1:
                self.crashes[name] -= 1
                raise Crash
        return CachedResponse(body=f"{name}: 3 boxes, attempt {attempt.number}".encode())

    def run(self) -> list[bytes | None]:
        return [self.step(name) for name in ("reserve stock", "pack", "ship")]


def main() -> None:
    shop = Shop()
    with Client(address()) as client:
        workflow = Workflow(client, random_key(), shop)
        try:
            workflow.run()
        except Crash:
            print(f"it crashed after {len(shop.done)} boxes, and is run again from its start")
        answers = workflow.run()
        print(b"; ".join(answer or b"" for answer in answers).decode())
        require(len(shop.done) == len(set(shop.done)) == 9, "no box was touched twice")
        require(answers[1] == b"pack: 3 boxes, attempt 2", "the second attempt went on")
        require(workflow.run() == answers and len(shop.done) == 9, "once more: all is replayed")


if __name__ == "__main__":
    main()
