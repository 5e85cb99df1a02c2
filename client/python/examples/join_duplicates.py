"""A button that is pressed five times at once. The first press does the work; the others wait on the
service, without polling, and get the same answer byte for byte. Who does not want to wait is told at
once that it is in progress.
"""

import asyncio
from datetime import timedelta

from example import address, require
from idempotency import (
    AsyncAttempt,
    AsyncClient,
    CachedResponse,
    OperationId,
    RunRequest,
    RunResult,
    StopReason,
    fingerprint_bytes,
    random_key,
)


async def main() -> None:
    key = random_key()
    made: list[str] = []
    working, go_on = asyncio.Event(), asyncio.Event()

    async def make_report(attempt: AsyncAttempt) -> CachedResponse:
        made.append(attempt.provider_key)
        working.set()
        await go_on.wait()  # the work
        return CachedResponse(body=b"report %d" % len(made))

    async with AsyncClient(address()) as client:

        async def press(wait: timedelta = timedelta(seconds=20)) -> RunResult:
            request = RunRequest(
                OperationId("outbox", "acct_1", key),
                fingerprint=fingerprint_bytes("POST", "/reports", b"2026-03"),
                wait=wait,
            )
            return await client.run(request, make_report)

        presses = [asyncio.create_task(press()) for _ in range(5)]
        await working.wait()
        impatient = await press(wait=timedelta(0))
        require(impatient.stop is StopReason.IN_PROGRESS, "who does not wait is told")
        print(f"in progress: come back after {impatient.retry_after}")
        go_on.set()
        results = await asyncio.gather(*presses)

    print(f"5 presses, made {len(made)} time, {sum(r.replayed for r in results)} joined it")
    require(len(made) == 1, "one does the work")
    require({result.answer().body for result in results} == {b"report 1"}, "all have its answer")


asyncio.run(main())
