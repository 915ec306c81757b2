"""Encryption between tasks: TLS in which both ends have the one certificate made for the session.

The certificate signs itself and is the only one that either end accepts, so whoever has its key is
one of us. It comes to the tasks with their work, through Spark: that is as secret as what Spark
itself sends, which is encrypted where this is used (job.py). Who has the certificate still has to
prove that it belongs to the attempt (handshake.py).

The certificate of a session, made by the Java that the driver runs on.

Python can use certificates but not make them, and Java brings a tool for it. Its arguments are
fixed; the password of the file that the key passes through is random, and goes by the environment,
since arguments of a process can be seen by others.
"""

from __future__ import annotations

import os
import secrets
import socket
import ssl
import subprocess
import tempfile
from base64 import encodebytes
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError

from caladan.engines.spark.strategy import CannotServe

_FAILED: Final = "the other end has another certificate"


@dataclass(frozen=True, slots=True)
class Identity:
    """A certificate and its private key, both as PEM. Not to be logged."""

    certificate: str
    key: str

    def __repr__(self) -> str:
        return "Identity(…)"


class Secure:
    """Makes connections of a task secure."""

    def __init__(self, identity: Identity) -> None:
        self._expected = ssl.PEM_cert_to_DER_cert(identity.certificate)
        self._caller = _context(identity, ssl.PROTOCOL_TLS_CLIENT)
        self._called = _context(identity, ssl.PROTOCOL_TLS_SERVER)

    def wrapped(self, connection: socket.socket, *, called: bool) -> ssl.SSLSocket:
        """A connection that the other end has opened, or this one; the handshake is to come."""
        context = self._called if called else self._caller
        return context.wrap_socket(connection, server_side=called, do_handshake_on_connect=False)

    def check(self, connection: ssl.SSLSocket) -> None:
        """After the handshake: whether the other end is one of us; SSLError if not."""
        if connection.getpeercert(binary_form=True) != self._expected:
            raise ssl.SSLError(_FAILED)


def _context(identity: Identity, protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # it is the same certificate on every host
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=identity.certificate)
    # OpenSSL takes a key from a file only; this one is readable to us alone, and gone at once.
    handle, path = tempfile.mkstemp(prefix="caladan-", suffix=".pem")
    try:
        with os.fdopen(handle, "w", encoding="ascii") as file:
            file.write(identity.certificate + identity.key)
        context.load_cert_chain(path)
    finally:
        os.unlink(path)  # noqa: PTH108
    return context


_ALIAS: Final = "caladan"
_PASSWORD: Final = "CALADAN_STORE"  # the name of a variable
_SECONDS: Final = 60

_made: dict[str, Identity] = {}


def certificate(spark: Any) -> Identity:
    """The certificate of a SparkContext, made when first asked for; CannotServe if it cannot be."""
    application = str(spark.applicationId)
    if application not in _made:
        try:
            made = _new(spark._jvm)
        except (OSError, subprocess.SubprocessError, Py4JError) as problem:
            reason = type(problem).__name__
            raise CannotServe(f"no certificate could be made to encrypt with ({reason})") from None
        _made.clear()  # a process has one SparkContext at a time
        _made[application] = made
    return _made[application]


def _new(jvm: Any) -> Identity:
    password = secrets.token_hex(32)
    java = Path(str(jvm.java.lang.System.getProperty("java.home"))) / "bin" / "java"
    with tempfile.TemporaryDirectory(prefix="caladan-") as folder:
        store = str(Path(folder) / "store.p12")
        subprocess.run(
            [
                str(java), "-m", "java.base/sun.security.tools.keytool.Main", "-genkeypair",
                "-alias", _ALIAS, "-dname", "CN=caladan", "-keyalg", "EC",
                "-groupname", "secp256r1", "-sigalg", "SHA256withECDSA",
                "-startdate", "-1d", "-validity", "365",
                "-storetype", "PKCS12", "-keystore", store, "-storepass:env", _PASSWORD,
            ],
            env={**os.environ, _PASSWORD: password},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=True,
        )  # fmt: skip
        stream = jvm.java.io.FileInputStream(store)
        try:
            # A Java string would become one of Python's on its way; an array stays where it is.
            characters = jvm.java.nio.CharBuffer.allocate(len(password)).put(password).array()
            keys = jvm.java.security.KeyStore.getInstance("PKCS12")
            keys.load(stream, characters)
            signed = bytes(keys.getCertificate(_ALIAS).getEncoded())
            # The class of the key is none that others may call; what describes it is.
            described = jvm.java.lang.Class.forName("java.security.spec.PKCS8EncodedKeySpec")
            made = keys.getKey(_ALIAS, characters)
            factory = jvm.java.security.KeyFactory.getInstance("EC")
            key = bytes(factory.getKeySpec(made, described).getEncoded())
        finally:
            stream.close()
    body = encodebytes(key).decode("ascii")
    pem = f"-----BEGIN PRIVATE KEY-----\n{body}-----END PRIVATE KEY-----\n"
    return Identity(ssl.DER_cert_to_PEM_cert(signed), pem)
