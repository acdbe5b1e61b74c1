"""The HTTP library that the installed openai brings: httpx2 with openai 3, httpx with openai 2.

The only file that imports either.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING

import openai

if TYPE_CHECKING:
    from httpx2 import (
        URL,
        AsyncByteStream,
        BasicAuth,
        ConnectError,
        ConnectTimeout,
        Headers,
        InvalidURL,
        Limits,
        ProxyError,
        RequestError,
        Response,
        Timeout,
        create_ssl_context,
    )
else:
    _http = import_module(openai.DefaultAsyncHttpxClient.__base__.__module__)
    URL = _http.URL
    AsyncByteStream = _http.AsyncByteStream
    BasicAuth = _http.BasicAuth
    ConnectError = _http.ConnectError
    ConnectTimeout = _http.ConnectTimeout
    Headers = _http.Headers
    InvalidURL = _http.InvalidURL
    Limits = _http.Limits
    ProxyError = _http.ProxyError
    RequestError = _http.RequestError
    Response = _http.Response
    Timeout = _http.Timeout
    create_ssl_context = _http.create_ssl_context

LOG = logging.getLogger(AsyncByteStream.__module__.partition(".")[0])
"""Where the library tells of each request, at level INFO."""

__all__ = [
    "LOG",
    "URL",
    "AsyncByteStream",
    "BasicAuth",
    "ConnectError",
    "ConnectTimeout",
    "Headers",
    "InvalidURL",
    "Limits",
    "ProxyError",
    "RequestError",
    "Response",
    "Timeout",
    "create_ssl_context",
]
