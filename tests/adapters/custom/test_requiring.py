"""A runtime that is missing, broken or too old is said in one sentence, and only where it is needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chatsnapshot.adapters.requiring import need, version_of
from chatsnapshot.errors import LedgerError, MissingExtra

PACKAGES = Path(__file__).resolve().parents[3] / "src" / "chatsnapshot" / "adapters"
RUNTIMES = ("langgraph", "openai_agents", "pydantic_ai", "crewai", "google_adk", "agent_framework", "strands")
RUNTIMES += ("agno",)
RUNTIMES += ("llama_index",)
PROTOCOLS = ("mcp_calls", "a2a", "ag_ui")
ROOTS = ["langgraph", "langchain_core", "agents", "pydantic_ai", "crewai", "google", "agent_framework", "mcp"]
ROOTS += ["strands", "agno"]
ROOTS += ["llama_index", "llama_index_instrumentation", "workflows"]


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = tmp_path / "some_runtime"
    made.mkdir()
    (made / "__init__.py").write_text("")
    (made / "hooks.py").write_text("class Hook:\n    def on_start(self): ...\n")
    (made / "broken.py").write_text("from some_runtime.hooks import Gone\n")
    (made / "hungry.py").write_text("import no_such_dependency_of_it\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    return made


def asked(module: str, *names: str) -> str:
    with pytest.raises(LedgerError) as caught:
        need(module, *names, extra="some-runtime", versions="some-runtime>=2", what="Some Runtime")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_is_there_is_given(package: Path) -> None:
    found = need("some_runtime.hooks", "Hook.on_start", extra="x", versions="x>=1")
    assert found.Hook.__name__ == "Hook"


def test_a_runtime_that_is_not_installed_names_the_extra() -> None:
    with pytest.raises(MissingExtra, match=r"recording Some Runtime needs .*chatsnapshot\[some-runtime\]"):
        need("no_such_runtime.hooks", extra="some-runtime", versions="x", what="Some Runtime")


def test_a_dependency_that_a_runtime_lacks_counts_as_not_installed(package: Path) -> None:
    with pytest.raises(MissingExtra):
        need("some_runtime.hungry", extra="some-runtime", versions="x")


@pytest.mark.parametrize(
    ("module", "names", "lacks"),
    [
        ("some_runtime.gone", (), "some_runtime.gone"),
        ("some_runtime.hooks", ("Gone",), "some_runtime.hooks.Gone"),
        ("some_runtime.hooks", ("Hook", "Hook.on_end"), "some_runtime.hooks.Hook.on_end"),
        ("some_runtime.broken", (), "some_runtime.broken that can be imported"),
    ],
)
def test_what_a_version_lacks_is_said_with_the_versions_that_have_it(
    package: Path, module: str, names: tuple[str, ...], lacks: str
) -> None:
    said = asked(module, *names)
    assert lacks in said and said.endswith("recording needs some-runtime>=2")


def test_the_version_is_that_of_the_distribution() -> None:
    assert version_of("no-such-distribution", "msgspec") is not None
    assert version_of("no-such-distribution") is None


def test_importing_the_adapters_imports_no_runtime() -> None:
    names = [*RUNTIMES, *PROTOCOLS, "custom", "auto.recording"]
    assert all(
        (PACKAGES / name.partition(".")[0]).exists() or (PACKAGES / f"{name}.py").exists() for name in names
    )
    heavy = ("langgraph", "langchain_core", "agents", "openai", "pydantic_ai", "pydantic", "crewai")
    heavy += ("google.adk", "agent_framework", "mcp", "a2a", "ag_ui", "httpx", "starlette", "opentelemetry")
    heavy += ("strands", "agno")
    heavy += ("llama_index", "llama_index_instrumentation", "workflows")
    code = "import importlib, sys\n"
    code += f"for name in {names!r}: importlib.import_module('chatsnapshot.adapters.' + name)\n"
    code += f"print([name for name in {heavy!r} if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (0, "[]\n"), ended.stderr


@pytest.mark.parametrize(
    ("module", "recorder"),
    [
        ("langgraph", "LangGraphRecorder"),
        ("openai_agents", "OpenAIAgentsRecorder"),
        ("pydantic_ai", "PydanticAIRecorder"),
        ("crewai", "CrewAIRecorder"),
        ("google_adk", "GoogleADKRecorder"),
        ("agent_framework", "AgentFrameworkRecorder"),
        ("strands", "StrandsRecorder"),
        ("agno", "AgnoRecorder"),
        ("llama_index", "LlamaIndexRecorder"),
        ("mcp_calls", "McpClientRecorder"),
    ],
)
def test_installing_a_recorder_of_a_runtime_that_is_not_there_is_one_sentence(
    module: str, recorder: str
) -> None:
    code = f"""
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {ROOTS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name.partition(".")[0])
sys.meta_path.insert(0, Nothing())
import importlib, chatsnapshot
from chatsnapshot.errors import MissingExtra
adapter = importlib.import_module("chatsnapshot.adapters.{module}")
with chatsnapshot.open("memory:") as ledger:
    try:
        adapter.install(adapter.{recorder}(ledger))
    except MissingExtra as error:
        print(error)
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert "pip install 'chatsnapshot[" in ended.stdout and ended.stdout.count("\n") == 1
