"""A real S3 server for tests, on this machine alone, and a connection to it that can break."""

import socket
import threading
import urllib.request
from contextlib import contextmanager, suppress

KEYS = {"AWS_ACCESS_KEY_ID": "somebody", "AWS_SECRET_ACCESS_KEY": "secret-of-somebody"}


@contextmanager
def server():
    """Start moto's server; gives its address."""
    import logging

    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    running.start()
    try:
        host, port = running.get_host_and_port()
        yield host, port
    finally:
        running.stop()


def connect(monkeypatch, address):
    """Name a server as everybody does: by variables of the environment."""
    import s3fs

    variables = {"AWS_ENDPOINT_URL": f"http://{address[0]}:{address[1]}", **KEYS}
    for name, value in {**variables, "AWS_DEFAULT_REGION": "us-east-1"}.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    return s3fs.S3FileSystem()


def require_credentials(address, on=True):
    """Let the server refuse keys that it does not know."""
    count = b"0" if on else b"1000000000"
    url = f"http://{address[0]}:{address[1]}/moto-api/reset-auth"
    about = {"Content-Type": "application/octet-stream"}
    urllib.request.urlopen(urllib.request.Request(url, count, about, method="POST")).read()


class BreakingProxy:
    """Passes a connection on; breaks it within the answers to some requests."""

    def __init__(self, address):
        self.target = address
        self.marked = b""
        """Only answers to GET requests with this text in their first line are broken."""
        self.breaks = 0
        """How many answers are still to be broken."""
        self.broken = 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self.listener.close()

    def _accept(self):
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        with suppress(OSError), client, socket.create_connection(self.target) as behind:
            state = {"cut": False}
            answers = threading.Thread(
                target=self._answer, args=(behind, client, state), daemon=True
            )
            answers.start()
            while data := client.recv(65536):
                first = data.split(b"\r\n", 1)[0]
                if self.breaks > 0 and first.startswith(b"GET ") and self.marked in first:
                    state["cut"] = True
                behind.sendall(data)

    def _answer(self, behind, client, state):
        held = b""
        with suppress(OSError):
            while data := behind.recv(65536):
                if not state["cut"]:
                    client.sendall(data)
                    continue
                # The headers pass, which may come in a piece of their own: what they promise
                # does not.
                held += data
                head, end, body = held.partition(b"\r\n\r\n")
                if body:
                    self.breaks -= 1
                    self.broken += 1
                    client.sendall(head + end + body[: len(body) // 2])
                    break
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
