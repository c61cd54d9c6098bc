"""`--device` and `--precision`: dispatch, with the probes of the hardware replaced."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from pretend import Gpu

from diffbcp_cli import apple as apple_gpu
from diffbcp_cli.cli.doctor import examine
from diffbcp_cli.devices import full_precision, pick_device, pick_precision
from diffbcp_cli.errors import UsageError


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch):
    """A function that pretends the machine has `gpus` CUDA devices, or an Apple GPU."""

    def pretend(*, gpus: int = 0, apple: bool = False, bf16: bool = True, lacking: str | None = None) -> None:
        monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
        capability = (8, 0) if bf16 else (7, 5)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: capability)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda: apple)
        monkeypatch.setattr(torch.mps, "recommended_max_memory", lambda: 8 * 10**9)
        monkeypatch.setattr(apple_gpu, "lacking", lambda: lacking)

    return pretend


def test_auto_is_cuda_or_a_usable_apple_gpu_or_the_cpu(machine):
    machine(gpus=1, apple=True)
    assert pick_device("auto") == torch.device("cuda")
    machine(apple=True)
    assert pick_device("auto") == torch.device("mps")
    machine(apple=True, lacking="it has no Cholesky factors")
    assert pick_device("auto") == torch.device("cpu")
    assert pick_device("mps") == torch.device("mps")
    machine()
    assert pick_device("auto") == torch.device("cpu")


def test_doctor_says_whether_an_apple_gpu_is_used_and_why_not(machine):
    machine(apple=True)
    found = examine()
    assert (found["device"], found["apple_gpu"], found["device_memory_gb"]) == ("mps", "used", 8.0)
    machine(apple=True, lacking="it has no Cholesky factors")
    found = examine()
    assert (found["device"], found["apple_gpu"]) == ("cpu", "it has no Cholesky factors")
    machine()
    assert "apple_gpu" not in examine()


def test_full_precision_puts_back_what_it_found():
    cuda = torch.device("cuda")
    with full_precision(cuda):
        assert not torch.backends.cudnn.allow_tf32
    assert torch.backends.cudnn.allow_tf32
    with pytest.raises(ZeroDivisionError), full_precision(cuda):
        _ = 1 / 0
    assert torch.backends.cudnn.allow_tf32


@pytest.mark.skipif(
    not hasattr(torch.backends.cuda.matmul, "fp32_precision"), reason="torch 2.9 brought the newer switches"
)
def test_full_precision_leaves_the_newer_switches_of_torch_alone():
    cuda, matmul = torch.device("cuda"), torch.backends.cuda.matmul
    before = matmul.fp32_precision
    try:
        matmul.fp32_precision = "tf32"
        with full_precision(cuda):
            assert matmul.fp32_precision == "tf32"
    finally:
        matmul.fp32_precision = before
        matmul.allow_tf32 = False


def test_doctor_says_why_there_is_no_cuda(machine, monkeypatch):
    machine()
    monkeypatch.setattr(torch.version, "cuda", None)
    assert examine()["cuda"] == "this torch was built without CUDA"
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert examine()["cuda"].endswith("CUDA_VISIBLE_DEVICES=7")


def test_an_apple_gpu_is_tried_out():
    apple_gpu.lacking.cache_clear()
    with Gpu("mps"):
        assert apple_gpu.lacking() is None
    for broken, said in (
        (lambda x: torch.linalg.eigh(x)[0], "it has no late ones"),
        (lambda x: x + (x.device.type == "mps"), "its late ones are wrong"),
    ):
        apple_gpu.lacking.cache_clear()
        with pytest.MonkeyPatch.context() as patched, Gpu("mps"):
            patched.setitem(apple_gpu.TRIED, "late ones", broken)
            assert (apple_gpu.lacking() or "").startswith(said)
    apple_gpu.lacking.cache_clear()


OPENMP = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")
SEEN = "import os; print([os.environ.get(name) for name in {names}])"
WORKER = """
import multiprocessing, os
import diffbcp_cli
if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        print(pool.map(os.getenv, {names}))
"""


def printed(code, *arguments, **variables):
    """What a fresh Python prints on both streams, with these OpenMP variables only."""
    clean = {name: value for name, value in os.environ.items() if name not in OPENMP}
    command = [sys.executable, *arguments, "-c", code] if code else [sys.executable, *arguments]
    done = subprocess.run(command, env={**clean, **variables}, capture_output=True, text=True, check=True)
    return done.stdout + done.stderr


def test_idle_threads_sleep_soon_after_the_package_is_imported():
    code = "import diffbcp_cli; " + SEEN.format(names=OPENMP)
    assert printed(code).strip() == "[None, '1000', '1']"


def test_the_users_own_openmp_settings_stay():
    code = "import diffbcp_cli; " + SEEN.format(names=OPENMP)
    assert printed(code, OMP_WAIT_POLICY="ACTIVE").strip() == "['ACTIVE', None, None]"
    assert printed(code, GOMP_SPINCOUNT="7").strip() == "[None, '7', '1']"


def test_worker_processes_inherit_the_openmp_settings(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(WORKER.format(names=OPENMP))
    assert printed("", str(script)).strip() == "[None, '1000', '1']"


@pytest.mark.parametrize(
    "arguments",
    [("-m", "diffbcp_cli", "doctor"), ("-c", "import diffbcp_cli.devices, torch; torch.get_num_threads()")],
    ids=["program", "library"],
)
def test_openmp_itself_sees_the_setting(arguments):
    shown = printed("", *arguments, OMP_DISPLAY_ENV="verbose")
    if "GOMP_SPINCOUNT" not in shown:
        pytest.skip("this torch does not use GNU OpenMP")
    assert "GOMP_SPINCOUNT = '1000'" in shown


def test_a_gpu_is_taken_by_number(machine):
    machine(gpus=2)
    assert pick_device("cuda:1") == torch.device("cuda", 1)
    assert pick_device("cuda") == torch.device("cuda")
    with pytest.raises(UsageError, match="no GPU 2: torch sees 2"):
        pick_device("cuda:2")


@pytest.mark.parametrize("name", ["cuda", "cuda:0", "mps"])
def test_a_gpu_that_is_not_there_is_a_usage_error(machine, name):
    machine()
    with pytest.raises(UsageError) as caught:
        pick_device(name)
    assert caught.value.exit_code == 2
    assert "--device cpu" in (caught.value.hint or "")


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "cuda:", "cpu:0", "CUDA", "", "cuda:-1"])
def test_an_unknown_device_is_a_usage_error(machine, name):
    machine(gpus=1)
    with pytest.raises(UsageError, match="unknown device"):
        pick_device(name)


def test_a_tolerant_network_computes_in_bf16_where_the_processor_does(monkeypatch):
    cpu = torch.device("cpu")
    for found, dtype in (({"avx512_bf16": True}, torch.bfloat16), ({"amx_bf16": True}, torch.bfloat16)):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda found=found: found, raising=False)
        assert pick_precision("auto", cpu, tolerant=True) is dtype
        assert pick_precision("auto", cpu) is torch.float32
        assert pick_precision("fp32", cpu, tolerant=True) is torch.float32
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": False}, raising=False)
    assert pick_precision("auto", cpu, tolerant=True) is torch.float32
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert pick_precision("auto", cpu, tolerant=True) is torch.float32


def test_precision_by_name_and_by_device(machine):
    cpu, cuda, mps = torch.device("cpu"), torch.device("cuda"), torch.device("mps")
    machine(gpus=1)
    assert pick_precision("fp16", cpu) is torch.float16
    assert pick_precision("bf16", cuda) is torch.bfloat16
    assert pick_precision("auto", cpu) is torch.float32
    assert pick_precision("auto", mps) is torch.float32
    assert pick_precision("auto", cuda) is torch.bfloat16
    machine(gpus=1, bf16=False)
    assert pick_precision("auto", cuda) is torch.float16
    with pytest.raises(UsageError, match="unknown precision"):
        pick_precision("fp8", cuda)
