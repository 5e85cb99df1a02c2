"""An outbox: what is to be sent is written in the same transaction as the change it tells of, with a
key of its own, and a worker sends it later, many rows with one Batch. A worker that dies between
sending rows and noting that they were sent leaves the next one in doubt; the keys answer that.
"""

import dataclasses

from example import address, require
from idempotency import (
    BatchRequest,
    CachedResponse,
    CallError,
    CompleteRequest,
    GrpcConnection,
    NextStep,
    OperationId,
    ReserveRequest,
    ReserveResponse,
    Verdict,
    fingerprint_bytes,
    random_key,
)

ROWS, BATCH = 200, 50


@dataclasses.dataclass
class Row:
    message: bytes
    key: str = dataclasses.field(default_factory=random_key)  # made when the row is written
    sent: bool = False

    @property
    def id(self) -> OperationId:
        return OperationId("outbox", "mail", self.key)


class WorkerDied(Exception):
    pass


def send_batch(connection: GrpcConnection, rows: list[Row], gateway: list[bytes]) -> set[str]:
    """The keys of those that have been sent, by us now or by somebody before."""
    reserve = BatchRequest(
        tuple(
            ReserveRequest(row.id, random_key(), fingerprint_bytes("SEND", "mail", row.message))
            for row in rows
        )
    )
    sent: set[str] = set()
    complete: dict[str, CompleteRequest] = {}
    for row, found in zip(rows, connection.call(reserve).results):
        if not isinstance(found, ReserveResponse):
            continue  # refused: the row stays where it is
        if found.next_step is NextStep.PROCEED and found.lease is not None:
            gateway.append(row.message)
            answer = CachedResponse(body=b"sent")
            complete[row.key] = CompleteRequest(
                row.id, found.lease.fencing_token, Verdict.SUCCEEDED, answer
            )
        elif found.next_step is NextStep.USE_RESPONSE:
            sent.add(row.key)
    results = connection.call(BatchRequest(tuple(complete.values()))).results
    # What is not confirmed is pending until its lease ends, then unresolved: see reconcile.py.
    return sent | {
        key for key, result in zip(complete, results) if not isinstance(result, CallError)
    }


def work(connection: GrpcConnection, outbox: list[Row], gateway: list[bytes], dies: bool) -> None:
    rows = [row for row in outbox if not row.sent]
    for begin in range(0, len(rows), BATCH):
        batch = rows[begin : begin + BATCH]
        sent = send_batch(connection, batch, gateway)
        if dies and begin > 0:
            raise WorkerDied  # before it has noted one of the second batch
        for row in batch:
            row.sent = row.key in sent


def main() -> None:
    outbox = [Row(b"mail %d" % number) for number in range(ROWS)]
    gateway: list[bytes] = []
    with GrpcConnection(address()) as connection:
        try:
            work(connection, outbox, gateway, dies=True)
        except WorkerDied:
            noted = sum(row.sent for row in outbox)
            print(f"the first worker died: {len(gateway)} sent, {noted} noted")
            require(noted < len(gateway), "some were sent and not noted")
        work(connection, outbox, gateway, dies=False)
    print(f"{ROWS} rows, {len(gateway)} messages")
    require(all(row.sent for row in outbox), "all rows are noted as sent")
    require(sorted(gateway) == sorted(row.message for row in outbox), "each message went out once")


if __name__ == "__main__":
    main()
