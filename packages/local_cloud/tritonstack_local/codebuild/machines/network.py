"""What a build reaches: its cloud, package indexes, and the git remotes and hubs that its models name.

A build has a network namespace with nothing but a loopback interface. Its agent opens ports there and hands
the listening sockets to the cloud. The first leads to an HTTP proxy that connects to known hosts only, the
others to the same ports of this machine: the cloud's, and those of indexes on this machine. So names are
resolved, and connections made, outside the build.
"""

from __future__ import annotations

import asyncio
import configparser
import contextlib
import functools
import ipaddress
import re
import socket
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

PIP_CONFIGURATIONS = (Path("/etc/pip.conf"), Path(sys.prefix, "pip.conf"))
_PYPI = ("https://pypi.org", "https://files.pythonhosted.org")
_NPM = "https://registry.npmjs.org"
_HUB = ("https://huggingface.co", "https://*.huggingface.co", "https://*.hf.co")
_GIT = re.compile(r"(?:git\+(https?://[^\s'\"]+))|(https?://[^\s'\"]+\.git)\b")
_DECLARATIONS = ("*.yaml", "*.yml", "requirements*.txt")
_LARGEST = 1 << 20
_PROXY_PORT = 3128
_LOOPBACK = ("localhost", "127.0.0.1")
"""Hosts that programs reach without the proxy."""
_HEAD_S, _CONNECT_S = 60, 30
_AT_ONCE = 1 << 16

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def package_indexes(environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the URLs and folders that pip and npm read in a build, whose home has no configuration."""
    parser = configparser.RawConfigParser()
    with contextlib.suppress(configparser.Error, UnicodeDecodeError):
        parser.read(PIP_CONFIGURATIONS)

    def option(name: str) -> list[str]:
        variable = environment.get(f"PIP_{name.upper().replace('-', '_')}")
        return str(variable or parser.get("global", name, fallback="")).split()

    yield from option("index-url") or _PYPI
    yield from option("extra-index-url")
    yield from option("find-links")
    yield environment.get("NPM_CONFIG_REGISTRY") or _NPM


def named_remotes(source: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """Yield the URLs of git remotes, and of the Hugging Face Hub, that files of the source's models name."""
    for pattern in _DECLARATIONS:
        for file in sorted((source / "models").rglob(pattern)):
            if not file.is_file() or file.stat().st_size > _LARGEST:
                continue
            text = file.read_text(errors="replace")
            yield from (first or second for first, second in _GIT.findall(text))
            if "hf://" in text:
                yield from (environment["HF_ENDPOINT"],) if environment.get("HF_ENDPOINT") else _HUB


def hosts_of(urls: Iterable[str]) -> list[str]:
    """Return `host:port` of each URL with a host, once and in order; skip what is no URL."""
    hosts: dict[str, None] = {}
    for url in urls:
        with contextlib.suppress(ValueError):
            parts = urlsplit(url)
            if parts.hostname and parts.scheme in ("http", "https"):
                hosts[f"{parts.hostname}:{parts.port or (443 if parts.scheme == 'https' else 80)}"] = None
    return list(hosts)


class BuildNetwork:
    """The ports of one build; served by a thread until `close`.

    The hosts that this machine's settings name may be on this machine; those that the build names may not.
    """

    def __init__(self, *, cloud_url: str, of_machine: Iterable[str], of_build: Iterable[str]) -> None:
        self._of_machine = hosts_of(of_machine)
        hub = hosts_of(_HUB)
        build_hosts = [host for host in hosts_of(of_build) if "*" not in host or host in hub]
        self.hosts = list(dict.fromkeys([*self._of_machine, *build_hosts]))
        loopback = [
            urlsplit(cloud_url).port,
            *(int(port) for name, port in map(_split, self._of_machine) if name in _LOOPBACK),
        ]
        self._forwarded = list(dict.fromkeys(port for port in loopback if port))
        self._proxy_port = next(port for port in range(_PROXY_PORT, 1 << 16) if port not in self._forwarded)
        self._channel, self.agents_end = socket.socketpair()
        self._loop = asyncio.new_event_loop()
        self._end = asyncio.Event()
        self._thread = threading.Thread(target=self._serve, name="build network", daemon=True)

    @property
    def ports(self) -> list[int]:
        """The ports that the agent opens, the proxy's first."""
        return [self._proxy_port, *self._forwarded]

    @property
    def variables(self) -> Mapping[str, str]:
        """The variables that lead programs to the proxy."""
        proxy = f"http://127.0.0.1:{self._proxy_port}"
        return {"http_proxy": proxy, "https_proxy": proxy, "no_proxy": "localhost,.localhost,127.0.0.1,::1"}

    def start(self) -> None:
        """Wait for the agent's sockets in a thread, and serve them."""
        self.agents_end.close()
        self._thread.start()

    def close(self) -> None:
        """Close every connection."""
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(RuntimeError):  # already closed
            self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join()

    def _serve(self) -> None:
        with contextlib.closing(self._channel):
            _, descriptors, _, _ = socket.recv_fds(self._channel, 1, len(self.ports))
        self._loop.run_until_complete(
            self._serve_until_the_end([socket.socket(fileno=fd) for fd in descriptors])
        )
        self._loop.close()

    async def _serve_until_the_end(self, listeners: list[socket.socket]) -> None:
        answers: list[Answer] = [
            self._proxy,
            *(functools.partial(_forward, port) for port in self._forwarded),
        ]
        servers = [
            await asyncio.start_server(answer, sock=listener)
            # Without listeners, the build has ended before its agent was ready.
            for answer, listener in zip(answers, listeners, strict=False)
        ]
        await self._end.wait()
        for server in servers:
            server.close()
        for task in (tasks := asyncio.all_tasks() - {asyncio.current_task()}):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _proxy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.closing(writer), contextlib.suppress(OSError, asyncio.IncompleteReadError):
            try:
                head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), _HEAD_S)
                method, address, _ = head.split(b"\r\n")[0].decode("ascii").split(" ")
                (host,) = hosts_of([f"https://{address}" if method == "CONNECT" else address])
            except (ValueError, TimeoutError, asyncio.LimitOverrunError):
                writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
                return
            if not self._allows(host):
                reason = f"{host} is not a package index, or a git remote that a model names"
                writer.write(f"HTTP/1.1 403 {reason}\r\nContent-Length: 0\r\n\r\n".encode())
                return
            name, port = _split(host)
            try:
                addresses = await asyncio.wait_for(_addresses(name, int(port)), _CONNECT_S)
                if host not in self._of_machine:
                    addresses = [address for address in addresses if is_elsewhere(address)]
                if not addresses:
                    reason = f"{host} is an address of this machine or its link"
                    writer.write(f"HTTP/1.1 403 {reason}\r\nContent-Length: 0\r\n\r\n".encode())
                    return
                upstream = await asyncio.wait_for(_connected(addresses, int(port)), _CONNECT_S)
            except (OSError, TimeoutError) as error:
                writer.write(f"HTTP/1.1 502 {host}: {error}\r\nContent-Length: 0\r\n\r\n".encode())
                return
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                upstream[1].write(_to_origin(head, address))
            await _join(reader, writer, *upstream)

    def _allows(self, host: str) -> bool:
        return any(host == name or (name[0] == "*" and host.endswith(name[1:])) for name in self.hosts)


async def _addresses(name: str, port: int) -> list[str]:
    """Resolve a name once: what is checked is what is connected to."""
    answers = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(item[4][0]) for item in answers))


def is_elsewhere(address: str) -> bool:
    """Whether an address is not this machine's loopback, its link (cloud metadata), or a group.

    Private ranges are elsewhere: companies have indexes there.
    """
    parsed = ipaddress.ip_address(address)
    ip = getattr(parsed, "ipv4_mapped", None) or parsed
    return not (ip.is_loopback or ip.is_link_local or ip.is_unspecified or ip.is_multicast)


async def _connected(
    addresses: Iterable[str], port: int
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to the first address that answers."""
    error = OSError("no address")
    for address in addresses:
        try:
            return await asyncio.open_connection(address, port)
        except OSError as failed:
            error = failed
    raise error


def _split(host: str) -> tuple[str, str]:
    name, _, port = host.rpartition(":")
    return name, port


def _to_origin(head: bytes, address: str) -> bytes:
    """Return the head as a server expects it, which closes the connection after its answer."""
    line, *fields = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    url = urlsplit(address)
    path = (url.path or "/") + (f"?{url.query}" if url.query else "")
    kept = [field for field in fields if not field.lower().startswith((b"connection:", b"proxy-"))]
    return b"\r\n".join(
        [line.replace(address.encode(), path.encode(), 1), *kept, b"Connection: close", b"", b""]
    )


async def _forward(port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.closing(writer), contextlib.suppress(OSError):
        await _join(reader, writer, *await asyncio.open_connection("127.0.0.1", port))


async def _join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    other_reader: asyncio.StreamReader,
    other_writer: asyncio.StreamWriter,
) -> None:
    """Copy in both directions until both have ended."""
    with contextlib.closing(other_writer):
        await asyncio.gather(_copy(reader, other_writer), _copy(other_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_AT_ONCE):
        writer.write(data)
        await writer.drain()
    writer.write_eof()
