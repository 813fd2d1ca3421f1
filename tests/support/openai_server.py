"""A small HTTP endpoint that speaks `/v1/chat/completions` and answers from a script. Used by the advisor's tests.

Each request takes the next step of the script; the last step repeats. Requests are recorded as they were seen, so that
a test can count what would have been billed and look at the headers.
"""

import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal


@dataclass(frozen=True)
class Step:
    """One scripted reaction: a status with a body, silence, a closed connection, or an answer that trickles."""

    kind: Literal["respond", "silence", "close", "half", "trickle"] = "respond"
    status: int = 200
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SeenRequest:
    """A request as it arrived."""

    path: str
    headers: Mapping[str, str]
    text: str

    @property
    def body(self) -> dict[str, Any]:
        document = json.loads(self.text)
        assert isinstance(document, dict)
        return document


def completion(content: str, *, prompt_tokens: int | None = 100, completion_tokens: int = 20) -> Step:
    """Answer with `content`; `prompt_tokens` None leaves the usage out, as some servers do."""
    document: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "scripted",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}],
    }
    if prompt_tokens is not None:
        document["usage"] = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        }
    return Step(body=json.dumps(document))


def proposals(*changes: Mapping[str, Any], reason: str = "relieves the bottleneck") -> Step:
    """Answer with well-formed proposals."""
    return completion(json.dumps({"proposals": [{"changes": dict(item), "reason": reason} for item in changes]}))


def refusal(status: int, message: str = "scripted", *, code: str | None = None, **headers: str) -> Step:
    """Answer with an error in the protocol's form; header names are given with underscores."""
    body = json.dumps({"error": {"message": message, "type": "scripted", "code": code}})
    return Step(status=status, body=body, headers={name.replace("_", "-"): value for name, value in headers.items()})


def completion_of(provider: str, answer: Mapping[str, Any]) -> Step:
    """Answer in the protocol of another provider, with 100 tokens read and 20 written."""
    text = json.dumps(answer)
    tool = {"toolUse": {"toolUseId": "1", "name": "json_tool_call", "input": answer}}
    documents: dict[str, dict[str, Any]] = {
        "anthropic": {
            "id": "1",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": [{"type": "text", "text": text}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 100, "output_tokens": 20},
        },
        "gemini": {
            "candidates": [{"content": {"parts": [{"text": text}], "role": "model"}, "finishReason": "STOP"}],
            "usageMetadata": {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120},
        },
        "ollama": {
            "model": "scripted",
            "created_at": "2026-01-01T00:00:00Z",
            "message": {"role": "assistant", "content": text},
            "done": True,
            "prompt_eval_count": 100,
            "eval_count": 20,
        },
        "bedrock": {
            "output": {"message": {"role": "assistant", "content": [tool]}},
            "stopReason": "tool_use",
            "usage": {"inputTokens": 100, "outputTokens": 20, "totalTokens": 120},
            "metrics": {"latencyMs": 1},
        },
    }
    return Step(body=json.dumps(documents[provider])) if provider in documents else completion(text)


SILENCE = Step("silence")
CLOSE = Step("close")
HALF = Step("half")
TRICKLE = Step("trickle")


class OpenAIServer:
    """The endpoint: `api_base` to connect to, `requests` in order of arrival."""

    def __init__(self, *script: Step, certificate: Path | None = None) -> None:
        self.script = list(script)
        self.requests: list[SeenRequest] = []
        self.closing = threading.Event()
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.endpoint = self
        self._scheme = "https" if certificate else "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def api_base(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}/v1"

    def take(self, request: SeenRequest) -> Step:
        """Record `request` and return the step that answers it."""
        with self._lock:
            self.requests.append(request)
            return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Wake held sockets, then stop listening."""
        self.closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    endpoint: OpenAIServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that do not trust the certificate."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length", "0"))
        text = self.rfile.read(length).decode()
        step = self.server.endpoint.take(SeenRequest(self.path, dict(self.headers.items()), text))
        self.close_connection = True
        if step.kind == "silence":
            self.server.endpoint.closing.wait()
        elif step.kind == "trickle":
            self._trickle()
        elif step.kind != "close":
            self._respond(step)

    def _respond(self, step: Step) -> None:
        if step.kind == "half":
            step = Step(body='{"id": "chatcmpl-1", "choices": [{"ind', headers={"Content-Length": "4096"})
        data = step.body.encode()
        self.send_response(step.status)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
            **step.headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self._write(data)

    def _trickle(self) -> None:
        """Send a byte now and then, so that no read ever times out."""
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", "1000000")
        self.end_headers()
        while not self.server.endpoint.closing.wait(0.1) and self._write(b" "):
            pass

    def _write(self, data: bytes) -> bool:
        try:
            self.wfile.write(data)
            self.wfile.flush()
        except OSError:  # the client hung up first, as some tests make it do
            return False
        return True

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it
        """Keep the test output clean."""


@contextmanager
def serving(*script: Step, certificate: Path | None = None) -> Iterator[OpenAIServer]:
    """Run an endpoint for the length of a block; over TLS with a `certificate` and its key in one file."""
    server = OpenAIServer(*script, certificate=certificate)
    server.start()
    try:
        yield server
    finally:
        server.stop()
