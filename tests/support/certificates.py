"""Authorities and certificates for tests, made by the openssl command: P-256, so that it takes milliseconds."""

import pathlib
import subprocess


def openssl(*arguments, text=None):
    """Runs openssl and returns its output; an error shows its messages."""
    run = subprocess.run(["openssl", *map(str, arguments)], input=text, capture_output=True, text=True, timeout=60)
    if run.returncode:
        raise AssertionError(f"openssl {' '.join(map(str, arguments))} failed: {run.stderr}")
    return run.stdout


class Pair:
    """A certificate and its key, as files."""

    def __init__(self, certificate, key):
        self.certificate, self.key = str(certificate), str(key)

    def settings(self, **more):
        return {"certificate": self.certificate, "key": self.key, **more}


class Authority:
    """Signs certificates; its own is `certificate`. With `signer` it is an intermediate authority."""

    def __init__(self, folder, name, signer=None):
        self.folder, self.name = pathlib.Path(folder), name
        self.certificate, self.key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.key]
        as_authority = ["-addext", "basicConstraints=critical,CA:true", "-addext", "keyUsage=critical,keyCertSign"]
        if signer is None:
            openssl("req", "-x509", *new_key, "-subj", f"/CN={name}", "-days", "30", "-out", self.certificate, *as_authority)
        else:
            signing = self.folder / f"{name}.csr"
            openssl("req", *new_key, "-subj", f"/CN={name}", "-out", signing, *as_authority)
            signer._sign(signing, self.certificate, 30)

    def _sign(self, signing, out, days):
        openssl(
            *("x509", "-req", "-in", signing, "-CA", self.certificate, "-CAkey", self.key, "-CAcreateserial"),
            *("-days", days, "-copy_extensions", "copy", "-out", out),
        )

    def issue(self, name, names="IP:127.0.0.1,DNS:localhost", days=20, file=None):
        """A certificate for the common name `name` and, if it is a server's, for `names`; expired, if `days` are negative."""
        file = file or name
        certificate, key, signing = (self.folder / f"{file}.{kind}" for kind in ("pem", "key", "csr"))
        openssl(
            *("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", signing),
            *("-subj", f"/CN={name}", "-addext", f"subjectAltName={names}"),
        )
        self._sign(signing, certificate, days)
        return Pair(certificate, key)
