"""A reconciler: goes over what is unresolved, oldest first, finds in the provider's own list what
became of each, and settles it, saying on what evidence. It needs the reconciler's access.
"""

import dataclasses

from example import address, require
from idempotency import (
    Attempt,
    CachedResponse,
    CallError,
    Client,
    Connection,
    EffectResult,
    ListOperationsRequest,
    Operation,
    OperationId,
    OperationState,
    Resolution,
    ResolveRequest,
    RunRequest,
    StatusCode,
    StopReason,
    fingerprint_bytes,
    provider_key,
    random_key,
)

NAMESPACE = "bank.plain"


def decide(operation: Operation, transfers: list[str]) -> ResolveRequest:
    # The provider has seen the provider's key, and not ours.
    if provider_key(operation.id) in transfers:
        return ResolveRequest(
            operation.id,
            Resolution.COMPLETED,
            actor="reconciler",
            reason="the bank's list of transfers has it",
            response=CachedResponse(http_status=201, body=b"as the bank has it"),
            etag=operation.etag,
        )
    return ResolveRequest(
        operation.id,
        Resolution.NOT_EXECUTED,
        actor="reconciler",
        reason="the bank's list of transfers does not have it",
        etag=operation.etag,
    )


def reconcile(connection: Connection, scope: str, transfers: list[str]) -> int:
    """One round; how many it has settled."""
    settled = 0
    ask = ListOperationsRequest(NAMESPACE, scope, states=(OperationState.UNRESOLVED,))
    while True:
        page = connection.call(ask)
        for operation in page.operations:
            try:
                connection.call(decide(operation, transfers))
                settled += 1
            except CallError as error:
                # NOT_SETTLED: its call may still arrive at the bank. Changed meanwhile, or somebody
                # else at it: the next round sees it as it is then.
                print(f"left for the next round: {error.reason.name}")
        if not page.next_page_token:
            return settled
        ask = dataclasses.replace(ask, page_token=page.next_page_token)


def main() -> None:
    scope, keys = random_key(), [random_key() for _ in range(6)]
    transfers: list[str] = []  # the bank's

    with Client(address()) as client:

        def transfer(key: str, bank_answers: bool) -> StopReason | None:
            def effect(attempt: Attempt) -> EffectResult:
                # Half of what gets no answer has happened.
                if bank_answers or keys.index(key) % 2 == 0:
                    transfers.append(attempt.provider_key)
                if not bank_answers:
                    return EffectResult.failed(StatusCode.UNAVAILABLE, "the connection broke")
                return EffectResult.answered(CachedResponse(http_status=201, body=b"transferred"))

            request = RunRequest(
                OperationId(NAMESPACE, scope, key), fingerprint_bytes("POST", "/transfers", b"5 EUR")
            )
            return client.run(request, effect).stop

        for key in keys:
            require(transfer(key, False) is StopReason.UNRESOLVED, "no answer is an unknown outcome")
            require(transfer(key, True) is StopReason.UNRESOLVED, "and nobody tries it again")
        settled = reconcile(client.connection, scope, transfers)
        print(f"{len(keys)} unresolved, {settled} settled by the bank's list of {len(transfers)}")
        require(settled == len(keys), "all are settled")
        for key in keys:
            require(transfer(key, True) is None, "each has an answer, or is done now")
        require(len(transfers) == len(set(transfers)) == len(keys), "every transfer happened once")


if __name__ == "__main__":
    main()
