"""An issuer of tokens: its keys, tokens that it signs, and a server that publishes the keys."""

from __future__ import annotations

import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from threaded_server import ThreadedServer

ISSUER = "https://login.example.com"
AUDIENCE = "iggy-tests"


class TokenIssuer:
    """Keys by name; `rsa` is made when it is asked for, which takes a while."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {}

    def ec(self, name: str, curve: ec.EllipticCurve | None = None) -> None:
        self.keys[name] = ec.generate_private_key(curve or ec.SECP256R1())

    def rsa(self, name: str) -> None:
        self.keys[name] = rsa.generate_private_key(65537, 2048)

    def key_set(self, **more: str) -> bytes:
        """As it is published; `more` fields in each key."""
        found = []
        for name, key in self.keys.items():
            kind = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
            found.append({**kind.to_jwk(key.public_key(), as_dict=True), "kid": name, **more})
        return json.dumps({"keys": found}).encode()

    def token(self, name: str, algorithm: str = "ES256", **claims: Any) -> str:
        """Signed with that key; good for a minute unless the claims say otherwise."""
        said = {"iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 60, "sub": "somebody"}
        headers = {"kid": name}
        return jwt.encode(said | claims, self.keys[name], algorithm=algorithm, headers=headers)


class KeyServer(ThreadedServer):
    """Publishes what `issuer` has, and counts who asks."""

    def __init__(self, issuer: TokenIssuer) -> None:
        self.asked = 0
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner.asked += 1
                data = issuer.key_set()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        super().__init__(server)
        self.url = f"http://127.0.0.1:{server.server_address[1]}/keys"
