"""A TCP proxy that loses replies and delays them: a connection is cut where an answer passes, with
all that is on it; what is not lost comes late, in its order."""

from __future__ import annotations

import asyncio
import random
import threading


class RoughProxy:
    """As a context manager. cuts: so many connections are cut, each after some answers, and then no
    more, so that whatever repeats patiently comes through."""

    def __init__(self, target: str, seed: int, cuts: int) -> None:
        self._host, _, port = target.rpartition(":")
        self._port = int(port)
        self._random = random.Random(seed)
        self.cuts_left = cuts
        self._is_cut = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy")
        self.address = ""

    def __enter__(self) -> RoughProxy:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def __exit__(self, *ignored: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.address = "127.0.0.1:%d" % self._server.sockets[0].getsockname()[1]

    async def _end(self) -> None:
        self._server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection(self._host, self._port)
        try:
            await asyncio.gather(
                self._forward(reader, there_writer), self._answer(there_reader, writer)
            )
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for end in (writer, there_writer):
                end.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The first is cut for sure: there may be few others where a machine is busy, and many answers
        # come at once.
        lasts = self._random.randint(2, 12) if self._is_cut else 2
        self._is_cut = True
        while data := await reader.read(65536):
            lasts -= 1
            if self.cuts_left > 0 and lasts == 0:
                self.cuts_left -= 1
                raise ConnectionResetError
            if self._random.random() < 0.3:
                await asyncio.sleep(self._random.random() * 0.02)
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError
