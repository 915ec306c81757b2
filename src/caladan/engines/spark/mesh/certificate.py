"""The certificate of a session, made by the Java that the driver runs on.

Python can use certificates but not make them, and Java brings a tool for it. Its arguments are
fixed; the password of the file that the key passes through is random, and goes by the environment,
since arguments of a process can be seen by others.
"""

from __future__ import annotations

import os
import secrets
import ssl
import subprocess
import tempfile
from base64 import encodebytes
from pathlib import Path
from typing import Any, Final

from py4j.protocol import Py4JError

from caladan.engines.spark.mesh.secure import Identity
from caladan.engines.spark.strategies import CannotServe

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
