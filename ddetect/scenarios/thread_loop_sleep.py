"""Training runs in a thread, the main thread serves an event loop and never joins; one rank's thread asks in vain."""

import asyncio
import threading
import time

import torch.distributed as dist
import training


def ask_feature_store() -> None:
    time.sleep(training.LIFETIME_S)  # <- stuck here


async def status(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"training\n")
    writer.close()


async def serve() -> None:
    server = await asyncio.start_server(status, "127.0.0.1", 0)
    await server.serve_forever()


args = training.arguments()
dist.init_process_group("gloo")
threading.Thread(target=training.train, args=(args, ask_feature_store), name="training").start()
asyncio.run(serve())
