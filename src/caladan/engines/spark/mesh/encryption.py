"""Encryption between tasks: TLS in which both ends have the one certificate made for the session.

The certificate signs itself and is the only one that either end accepts, so whoever has its key is
one of us. It comes to the tasks with their work, through Spark: that is as secret as what Spark
itself sends, which is encrypted where this is used (job.py). Who has the certificate still has to
prove that it belongs to the attempt (handshake.py).

Python can use certificates but not make them: the driver needs `cryptography` for that, the extra
`encryption`. Tasks do not.
"""

from __future__ import annotations

import os
import socket
import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

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


_DAY: Final = timedelta(days=1)
_VALID: Final = 365  # days

_made: dict[str, Identity] = {}


def certificate(spark: Any) -> Identity:
    """The certificate of a SparkContext, made when first asked for; CannotServe if it cannot be."""
    application = str(spark.applicationId)
    if application not in _made:
        try:
            made = new_identity()
        except ImportError:
            reason = 'to encrypt takes a certificate: pip install "caladan[encryption]"'
            raise CannotServe(reason) from None
        _made.clear()  # a process has one SparkContext at a time
        _made[application] = made
    return _made[application]


def new_identity() -> Identity:
    """A certificate that signs itself, of a key that nobody else has; ImportError without help."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "caladan")])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _DAY)  # clocks differ
        .not_valid_after(now + _VALID * _DAY)
        .sign(key, hashes.SHA256())
    )
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    return Identity(signed.public_bytes(pem).decode("ascii"), secret.decode("ascii"))
