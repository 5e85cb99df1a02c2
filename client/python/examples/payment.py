"""A payment whose process crashes in the middle, and whose next try gets no answer in time: three
tries of one order, one charge. The bank recognises a repeated key (RETRY_SAME_KEY), so the service
grants another attempt after an unknown outcome, and every attempt sends the same key.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from datetime import timedelta

from example import address, require
from idempotency import (
    Attempt,
    CachedResponse,
    Client,
    EffectResult,
    OperationId,
    RunOptions,
    RunRequest,
    RunResult,
    StatusCode,
    classify_http,
    fingerprint_json,
    random_key,
)


class Bank:
    """Stands in for the provider: a journal that outlives us, with a line for each charge."""

    def __init__(self, journal: pathlib.Path) -> None:
        self.journal = journal

    def charges(self) -> list[str]:
        return self.journal.read_text().splitlines() if self.journal.exists() else []

    def charge(self, key: str, body: bytes) -> CachedResponse:
        if key not in self.charges():
            with self.journal.open("a") as journal:
                journal.write(key + "\n")
        number = self.charges().index(key) + 1
        return CachedResponse(201, content_type="application/json", body=b'{"charge": %d}' % number)


def pay(client: Client, bank: Bank, order_key: str, fault: str) -> RunResult:
    body = json.dumps({"amount": 1999, "currency": "EUR"}).encode()

    def charge(attempt: Attempt) -> EffectResult:
        answer = bank.charge(attempt.provider_key, body)
        if fault == "crash":
            os._exit(1)  # it has happened, and nobody is left to say so
        if fault == "timeout":
            return EffectResult.failed(StatusCode.DEADLINE_EXCEEDED, "no answer within 1 s")
        return EffectResult.answered(answer)

    request = RunRequest(
        OperationId("payments", "acct_1", order_key),
        fingerprint=fingerprint_json("POST", "/v1/charges", body),
        # The shorter the lease, the sooner a crash is noticed; it is renewed while charge runs.
        lease_duration=timedelta(seconds=1),
        call_timeout=timedelta(seconds=10),
    )
    return client.run(request, charge, RunOptions(classify=classify_http))


def main() -> None:
    if len(sys.argv) == 4:  # the process that crashes
        with Client(address()) as client:
            pay(client, Bank(pathlib.Path(sys.argv[2])), sys.argv[3], "crash")
        return

    with tempfile.TemporaryDirectory() as directory, Client(address()) as client:
        bank = Bank(pathlib.Path(directory) / "journal")
        # Made with the order and saved with it, before the first try.
        order_key = random_key()

        crashed = subprocess.run([sys.executable, __file__, address(), str(bank.journal), order_key])
        require(crashed.returncode == 1, "the first try has crashed")
        timed_out = pay(client, bank, order_key, "timeout")
        print(f"no answer: {timed_out.stop and timed_out.stop.name}, then {timed_out.next_step.name}")
        require(timed_out.next_step.name == "RESERVE_AGAIN", "the same order may be tried again")
        paid = pay(client, bank, order_key, "none")
        require(paid.has_answer and not paid.replayed, "the third try has the bank's answer")
        again = pay(client, bank, order_key, "none")
        require(again.replayed, "from then on the answer is replayed")
        require(again.answer().body == paid.answer().body, "byte for byte")
        print(f"4 tries, {len(bank.charges())} charge")
        require(len(bank.charges()) == 1, "one charge")


if __name__ == "__main__":
    main()
