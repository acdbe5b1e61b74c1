"""What the environment puts between this process and a chat server, proxies and certificates, and
what to say when that is what fails.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from rlver_gym.io.errors import ServerRefused
from rlver_gym.llm_client.credentials import URL, without_credentials
from rlver_gym.llm_client.settings import OPENAI_URL, ChatSettings

_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")


@contextmanager
def explain_environment() -> Iterator[None]:
    """While a client is made: ServerRefused that names the variable that cannot be used."""
    try:
        yield
    except (ImportError, OSError, ValueError) as error:
        if isinstance(error, ServerRefused):
            raise
        if isinstance(error, OSError) and (name := _first_set(_CERTIFICATES)):
            raise ServerRefused(
                f"{name} names certificates that cannot be read ({error.strerror or error}). Unset"
                " it, or give a file of certificates in PEM form."
            ) from None
        raise ServerRefused(
            f"{_name_proxies()} cannot be used ({str(error).rstrip('.')[:200]}). Unset it, give a"
            " proxy of http://, or for SOCKS: pip install 'httpx2[socks]' 'httpx[socks]'."
        ) from None


def explain_no_connection(cause: BaseException, settings: ChatSettings) -> str:
    """A sentence on what stands in the way, with a blank after it; empty when only the server
    does.
    """
    if is_distrusted(cause):
        return (
            "Its certificate is not trusted here: SSL_CERT_FILE names the certificates that are. "
        )
    url = urlsplit(settings.base_url or os.environ.get(URL) or OPENAI_URL)
    if proxy_bypass(url.netloc.rpartition("@")[2]):
        return ""
    proxies = getproxies()
    scheme = url.scheme if url.scheme in proxies else "all"
    if scheme not in proxies:
        return ""
    name = f"{scheme}_proxy"
    variable = next((one for one in (name, name.upper()) if os.environ.get(one)), name.upper())
    where = without_credentials(proxies[scheme])
    return (
        f"It is asked through the proxy {where} of {variable}: unset that, or add"
        f" {url.hostname} to NO_PROXY. "
    )


def is_distrusted(cause: BaseException | None) -> bool:
    """Whether a connection failed at the server's certificate."""
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _first_set(names: tuple[str, ...]) -> str | None:
    return next((name for name in names if os.environ.get(name)), None)


def _name_proxies() -> str:
    """The variables of proxies that are set, with what they name, without passwords."""
    found = [
        f"{name}={without_credentials(value)}"
        for name, value in os.environ.items()
        if name.lower() in ("all_proxy", "http_proxy", "https_proxy") and value
    ]
    return " and ".join(found) or "the proxy or the certificates of the environment"
