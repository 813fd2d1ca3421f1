"""The advisor: an LLM asked through DSPy and LiteLLM, and a scripted one for tests and demos.

Callers meet `LLMConnection` (settings), `LLMAdvisor` (llm) and `ScriptedAdvisor` (scripted). DSPy and LiteLLM are
imported by `runtime` only, on first use, since that takes seconds.
"""

from tunewright.adapters.advisor.llm import LLMAdvisor
from tunewright.adapters.advisor.scripted import ScriptedAdvisor
from tunewright.adapters.advisor.settings import LLMConnection
from tunewright.adapters.advisor.transcript import Exchange, Transcript

__all__ = ["Exchange", "LLMAdvisor", "LLMConnection", "ScriptedAdvisor", "Transcript"]
