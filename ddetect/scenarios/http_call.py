"""One rank asks a web service without a timeout; the service takes the connection and never answers."""

import socket
import urllib.request

import training

server = socket.create_server(("127.0.0.1", 0))


def fetch_config() -> None:
    host, port = server.getsockname()
    urllib.request.urlopen(f"http://{host}:{port}/config.json")  # <- stuck here


training.run(fetch_config)
