"""Certificates as cert-manager makes them, and tokens as a cluster gives them to its pods."""

import base64
import json
import pathlib

from service import run


def openssl(*words, stdin: bytes = b"") -> bytes:
    done = run("openssl", *words, stdin=stdin)
    if done.returncode != 0:
        raise RuntimeError(f"openssl {words}: {done.stderr.decode()}")
    return done.stdout


def make_certificate(directory: pathlib.Path, names: list, usage: str = "serverAuth"):
    """tls.crt, tls.key and ca.crt for these DNS names, as in the Secret of a Certificate."""
    directory.mkdir(parents=True)
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    authority = directory / "authority.key"
    openssl(
        "req", "-x509", *curve, "-keyout", authority, "-out", directory / "ca.crt", "-days", "2",
        "-subj", "/CN=authority", "-addext", "basicConstraints=critical,CA:TRUE",
    )  # fmt: skip
    request = openssl("req", *curve, "-keyout", directory / "tls.key", "-subj", "/")
    extensions = directory / "extensions"
    alternatives = ",".join(f"DNS:{name}" for name in names)
    extensions.write_text(
        f"subjectAltName=critical,{alternatives}\nextendedKeyUsage={usage}\n", "utf-8"
    )
    leaf = openssl(
        "x509", "-req", "-CA", directory / "ca.crt", "-CAkey", authority, "-CAcreateserial",
        "-days", "1", "-extfile", extensions, stdin=request,
    )  # fmt: skip
    (directory / "tls.crt").write_bytes(leaf)
    (directory / "tls.key").chmod(0o440)


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Cluster:
    """Signs tokens of service accounts, and publishes the key that they are checked with."""

    def __init__(self, directory: pathlib.Path, issuer: str):
        directory.mkdir(parents=True, exist_ok=True)
        self.issuer = issuer
        self.key = directory / "cluster.key"
        openssl("genrsa", "-out", self.key, "2048")

    def jwks(self) -> str:
        modulus = openssl("rsa", "-in", self.key, "-noout", "-modulus").decode().strip()
        number = bytes.fromhex(modulus.partition("=")[2])
        return json.dumps(
            {"keys": [{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "k1",
                       "n": _base64url(number), "e": "AQAB"}]}
        )  # fmt: skip

    def token(self, account: str, audience: str, now: int) -> str:
        """Of system:serviceaccount:`account`, which is NAMESPACE:NAME; good for an hour."""
        head = {"alg": "RS256", "kid": "k1"}
        claims = {"iss": self.issuer, "sub": f"system:serviceaccount:{account}",
                  "aud": [audience], "iat": now, "nbf": now, "exp": now + 3600}  # fmt: skip
        signed = ".".join(_base64url(json.dumps(part).encode()) for part in (head, claims))
        signature = openssl("dgst", "-sha256", "-sign", self.key, stdin=signed.encode())
        return f"{signed}.{_base64url(signature)}"
