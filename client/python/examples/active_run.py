"""One active run for each account: whoever comes while it is active is told who has it, and hands
over what it came with. The namespace (ACTIVE_RUN) keeps a key only while its run is active.
"""

import asyncio
import collections
from datetime import timedelta

from example import address, require
from idempotency import (
    AsyncAttempt,
    AsyncClient,
    CachedResponse,
    OperationId,
    RunRequest,
    StopReason,
    fingerprint_bytes,
    random_key,
)


async def main() -> None:
    account = random_key()
    # Stands in for the addresses of the runs: where messages for each go.
    inboxes: dict[str, list[str]] = collections.defaultdict(list)
    runs: list[str] = []

    async with AsyncClient(address()) as client:

        async def run_or_hand_over(run_id: str, message: str, busy: bool = False) -> str:
            """Starts a run, or hands `message` to the one that is active; its id."""

            async def nightly_import(_: AsyncAttempt) -> CachedResponse:
                runs.append(run_id)
                if busy:  # two others come while it is at work
                    for other in ("run-2", "run-3"):
                        active = await run_or_hand_over(other, f"what {other} brings")
                        print(f"{other} hands over to {active}")
                        require(active == "run-1", "duplicates are sent to the active run")
                return CachedResponse(body=b"imported")

            request = RunRequest(
                OperationId("runs", account, "nightly-import"),
                # One fingerprint for all: they ask for the same thing, whatever they bring.
                fingerprint=fingerprint_bytes("RUN", "nightly-import", b""),
                wait=timedelta(0),
                operation_ref=run_id,
            )
            result = await client.run(request, nightly_import)
            if result.has_answer:
                return run_id
            require(result.stop is StopReason.IN_PROGRESS, "it is active")
            active = result.operation.owner.operation_ref if result.operation else ""
            inboxes[active].append(message)
            return active

        await run_or_hand_over("run-1", "", busy=True)
        require(runs == ["run-1"], "one run was active")
        require(len(inboxes["run-1"]) == 2, "it has what the others brought")
        print(f"afterwards {await run_or_hand_over('run-4', '')} runs")
        require(runs == ["run-1", "run-4"], "the key is free when the run has ended")


asyncio.run(main())
