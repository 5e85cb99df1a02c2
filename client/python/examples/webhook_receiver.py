"""A receiver of webhooks, which are delivered at least once, sometimes at the same time: the key is
the event's id. One delivery is handled, all are answered. Handling one again would be harmless
(WEBHOOK_INBOX: RERUN), so a receiver that died leaves nothing that somebody has to look after.
"""

import concurrent.futures
import http.server
import threading
import urllib.request
from datetime import timedelta

from example import address, require
from idempotency import (
    Attempt,
    CachedResponse,
    Client,
    OperationId,
    RunOptions,
    RunRequest,
    classify_http,
    derive_key,
    random_key,
)
from idempotency.http_edge import answer_run

DELIVERIES = 8
handled: list[str] = []


class Receiver(http.server.BaseHTTPRequestHandler):
    client: Client

    def do_POST(self) -> None:
        event_id = self.headers["Webhook-Id"]
        body = self.rfile.read(int(self.headers["Content-Length"]))

        def handle(_: Attempt) -> CachedResponse:
            handled.append(event_id)
            return CachedResponse(http_status=200, body=b"%d bytes" % len(body))

        # After its signature has been checked. The scope is the sender, not what the sender says.
        request = RunRequest(
            OperationId("webhooks", "sender_1", derive_key("webhook", event_id)),
            wait=timedelta(seconds=5),
        )
        answer = answer_run(self.client.run(request, handle, RunOptions(classify=classify_http)))
        self.send_response(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value.decode("latin-1"))
        self.send_header("Content-Length", str(len(answer.body or b"")))
        self.end_headers()
        self.wfile.write(answer.body or b"")

    def log_message(self, format: str, *args: object) -> None:
        pass


def main() -> None:
    event_id = "evt_" + random_key()
    with Client(address()) as client:
        Receiver.client = client
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
        threading.Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{server.server_port}/"

        def deliver(_: int) -> tuple[int, str | None, bytes]:
            headers = {"Webhook-Id": event_id}
            with urllib.request.urlopen(urllib.request.Request(url, b"{}", headers)) as answer:
                return answer.status, answer.headers["Idempotency-Replayed"], answer.read()

        with concurrent.futures.ThreadPoolExecutor(DELIVERIES) as pool:
            answers = list(pool.map(deliver, range(DELIVERIES)))
        server.shutdown()
        server.server_close()

    print(f"{DELIVERIES} deliveries, handled {len(handled)} time")
    require(handled == [event_id], "one is handled")
    require({(status, body) for status, _, body in answers} == {(200, b"2 bytes")}, "all are answered")
    require(sum(mark == "true" for _, mark, _ in answers) == DELIVERIES - 1, "replays say so")


if __name__ == "__main__":
    main()
