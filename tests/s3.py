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
        """Only answers to requests with this text in them are broken."""
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
                if self.breaks > 0 and self.marked in data.split(b"\r\n", 1)[0]:
                    state["cut"] = True
                behind.sendall(data)

    def _answer(self, behind, client, state):
        with suppress(OSError):
            while data := behind.recv(65536):
                # The headers may pass: what they promise does not come.
                if state["cut"] and b"\r\n\r\n" in data and not data.endswith(b"\r\n\r\n"):
                    self.breaks -= 1
                    self.broken += 1
                    head, _, body = data.partition(b"\r\n\r\n")
                    client.sendall(head + b"\r\n\r\n" + body[: len(body) // 2])
                    client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)
