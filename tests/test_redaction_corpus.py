"""Three hundred planted secrets in ten encodings go, two hundred harmless look-alikes stay; it is quick."""

# ruff: noqa: E501

from __future__ import annotations

import base64
import hashlib
import itertools
import random
import string
import time
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest

from scripts.osal import redaction
from scripts.osal.redaction import Redactor, redact_bytes
from scripts.osal.redaction_secrets import Span, View, secrets_in

RANDOM = random.Random(13)  # noqa: S311 - reproducible, not secret
REDACTOR = Redactor(user="gwendolyn", home="/home/gwendolyn", host="tower4711.lab.example.org")
ENCODINGS = ("utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-le", "utf-32-be")
ENCODINGS = (*ENCODINGS, "cp1252", "cp850")
ALNUM = string.ascii_letters + string.digits


def pick(letters: str, size: int) -> str:
    return "".join(RANDOM.choice(letters) for _ in range(size))


def word(size: int = 12) -> str:
    """A password as people make them: letters and at least one digit."""
    return f"{pick(string.ascii_lowercase, size - 3)}{RANDOM.choice(string.ascii_uppercase)}{pick('0123456789', 2)}"


def token(size: int = 40) -> str:
    return f"{pick(string.ascii_lowercase, 2)}{pick(ALNUM, size - 4)}{pick('0123456789', 2)}"


def hexa(size: int) -> str:
    return f"a{pick('0123456789abcdef', size - 1)}"


def segment(size: int) -> str:
    return base64.urlsafe_b64encode(RANDOM.randbytes(size)).decode().rstrip("=")


LABELLED = (
    "password={}", "Password: {}", 'password = "{}"', "passwd:{}", "PGPASSWORD={}", "DB_PASS={}", "--password {}",
    "--token {}", "--api-key={}", "-token {}", "token\t{}", "password\n{}", "pwd={}", "secret: {}",
    "client_secret => {}", "aws_secret_access_key = {}", "api_key: '{}'", "apikey={}", '"api-key": "{}"',
    '\\"password\\": \\"{}\\"', "Authorization: Bearer {}", "Authorization: Digest username=me, response={}", "authorization: Basic {}", "Cookie: sid={}; theme=dark",
    "Set-Cookie: session={}; Path=/", "GET /x?sig={}&se=2026", "https://h.example/x?X-Amz-Signature={}",
    "https://h.example/x?key={}&y=1", "AccountName=n;AccountKey={};EndpointSuffix=x", "SharedAccessKey={}",
    "https://user:{}@h.example/x.git", "machine h.example login gwen2 password {}", "_authToken={}", "JSESSIONID={}",
    "passphrase: {}", "Kennwort: {}", "mot de passe : {}", "ENCRYPTION_KEY={}", "STRIPE_KEY={}", "password%3D{}",
    "private-key={}", "license key: {}", "otp={}", "credentials={}", "curl -H 'X-Api-Key: {}'", "senha: {}",
)  # fmt: skip
SHAPED: tuple[Callable[[], str], ...] = (
    lambda: f"ghp_{pick(ALNUM, 36)}",
    lambda: f"github_pat_{pick(ALNUM, 22)}_{pick(ALNUM, 59)}",
    lambda: f"glpat-{pick(ALNUM, 20)}",
    lambda: f"hf_{pick(string.ascii_letters, 34)}",
    lambda: f"sk-proj-{pick(ALNUM, 48)}",
    lambda: f"sk-ant-api03-{segment(60)}",
    lambda: f"xoxb-{pick('123456789', 12)}-{pick('123456789', 12)}-{pick(ALNUM, 24)}",
    lambda: f"pypi-{segment(80)}",
    lambda: f"npm_{pick(ALNUM, 36)}",
    lambda: f"AKIA{pick(string.ascii_uppercase + '234567', 16)}",
    lambda: f"AIza{pick(ALNUM, 35)}",
    lambda: f"ya29.{segment(60)}",
    lambda: f"sk_live_{pick(ALNUM, 24)}",
    lambda: f"SG.{pick(ALNUM, 22)}.{pick(ALNUM, 43)}",
    lambda: f"dop_v1_{hexa(64)}",
    lambda: f"shpat_{hexa(32)}",
    lambda: f"dapi{hexa(32)}",
    lambda: f"hvs.{segment(70)}",
    lambda: f"{pick('123456789', 9)}:AA{pick(ALNUM, 33)}",
    lambda: f"{hexa(32)}-us{pick('123456789', 2)}",
    lambda: f"eyJ{segment(24)}.eyJ{segment(60)}.{segment(32)}",
    lambda: f"AGE-SECRET-KEY-1{pick(string.ascii_uppercase + string.digits, 58)}",
    lambda: f"{pick(ALNUM, 3)}7Q~{pick(ALNUM, 34)}",
    lambda: f"PMAK-{hexa(24)}-{hexa(34)}",
    lambda: f"-----BEGIN OPENSSH PRIVATE KEY-----\n{segment(90)}\n-----END OPENSSH PRIVATE KEY-----",
    lambda: f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{segment(90)}\n-----END PGP PRIVATE KEY BLOCK-----",
)  # fmt: skip
BARE: tuple[Callable[[], str], ...] = (
    lambda: token(40),
    lambda: token(32),
    lambda: segment(33),
    lambda: base64.b64encode(RANDOM.randbytes(48)).decode(),
    lambda: pick(string.ascii_lowercase + "234567", 52),
    lambda: pick(string.ascii_uppercase + "234567", 32),
)
PERSONAL: tuple[tuple[str, Callable[[], str]], ...] = (
    ("{}", lambda: f"{pick(string.ascii_lowercase, 6)}.{word(8)}@firm{pick('0123456789', 2)}.example.com"),
    ("peer {} answered", lambda: f"192.168.{RANDOM.randrange(2, 250)}.{RANDOM.randrange(100, 250)}"),
    (
        "from {}:443",
        lambda: f"81.{RANDOM.randrange(20, 250)}.{RANDOM.randrange(20, 250)}.{RANDOM.randrange(20, 250)}",
    ),
    ("inet6 {} up", lambda: f"fe80::{hexa(4)}:{hexa(4)}:{hexa(4)}:{hexa(4)}"),
    ("[{}]:80", lambda: "2001:" + ":".join(hexa(4) for _ in range(7))),
    ("link {}", lambda: ":".join(hexa(2) for _ in range(6))),
    ("link {}", lambda: "-".join(hexa(2).upper() for _ in range(6))),
    ("link {}", lambda: ".".join(hexa(4) for _ in range(3))),
    ("HWaddr {}", lambda: hexa(12)),
    ("id {}", lambda: str(uuid.UUID(int=RANDOM.getrandbits(128)))),
    ("sid {}", lambda: "S-1-5-21-" + "-".join(pick("123456789", 9) for _ in range(4))),
    ("sid {}", lambda: "S-1-12-1-" + "-".join(pick("123456789", 9) for _ in range(4))),
    ("Uuid: GPU-{}", lambda: hexa(16)),
    ("Unique ID: {}", lambda: f"0x{hexa(16)}"),
    ("Serial Number: {}", lambda: f"PF{pick(string.ascii_uppercase + string.digits, 8)}1"),
    ("Seriennummer: {}", lambda: f"PF{pick(string.ascii_uppercase + string.digits, 8)}1"),
    ("numéro de série : {}", lambda: f"PF{pick(string.ascii_uppercase + string.digits, 8)}1"),
    ("SerialNumber\n{}", lambda: f"PF{pick(string.ascii_uppercase + string.digits, 8)}1"),
    ("S/N: {}", lambda: f"PF{pick(string.ascii_uppercase + string.digits, 8)}1"),
    ("machine-id={}", lambda: hexa(32)),
    ("key {}", lambda: "-".join(pick("BCDFGHJKMPQRTVWXY2346789", 4) + "7" for _ in range(5))),
    ("open /home/{}/x failed", lambda: word(9)),
    ("open /export/home/{}/x failed", lambda: word(9)),
    ("at C:\\Users\\{}\\x", lambda: word(9)),
    ("on \\\\{}\\share", lambda: f"nas{word(6)}"),
    ("runs as CONTOSO\\{}", lambda: pick(string.ascii_lowercase, 9)),
)


def planted() -> Iterator[tuple[str, str]]:
    """Yield lines and the secrets in them: behind labels, by shape, of persons, and bare ones."""
    for round_ in range(3):
        for form in LABELLED:
            secret = word(12) if round_ == 0 else token(24) if round_ == 1 else hexa(32)
            yield form.format(secret), secret
        for make in SHAPED:
            secret = make()
            yield (
                f"using {secret} now",
                secret.splitlines()[1 if "\n\n" not in secret else 2] if "\n" in secret else secret,
            )
        for form, make in PERSONAL:
            secret = make()
            yield form.format(secret), secret
    for make in BARE * 4:
        secret = make()
        yield f"read {secret} from it", secret


LINES = list(planted())


def harmless() -> Iterator[str]:
    digest = hashlib.sha256(b"x").hexdigest()
    for n in range(12):
        data = b"%d" % n
        yield f"sha256 {hashlib.sha256(data).hexdigest()}  nvcuda{n}.dll"
        yield f"commit {hashlib.sha1(data).hexdigest()}"  # noqa: S324 - what Git prints
        yield f"md5sum {hashlib.md5(data).hexdigest()}"  # noqa: S324 - what people print
        yield f"GPU {n}: gfx{1030 + n} at 0000:0{n % 10}:00.0, {n * 11}:{n % 6}0:30"
        yield f"driver 32.0.{31040 + n}.{1000 + n}, ROCm 6.4.{n}, HIP version: 6.4.43483-a187df25c"
        yield f"nvcuda {n}.{n % 10}.1.4 of zluda-v6.{n}.2.1 loaded, cudnn 9.{n}.0.52"
        yield f"2026-11-30T15:{n:02}:07.123Z step {n} took {n}.25 s, {n * 3} tokens, tokens: {n}"
        yield f"Cijk_Ailk_Bljk_HHS_BH_MT128x{128 + n}x16_SE_1LDSB0_APM1_AF0EM8_AF1EM1_AMAS0_ASAE01_ASCE01_ASEM8_BL1_BS1"
        yield f"_ZN2at6native12_GLOBAL__N_1{10 + n}launch_clamp_scalarERNS_18TensorIteratorBaseEN3c106ScalarES4_"
        yield f"void gemm_kernel<float, {n}>(GemmParams<float>, TensorIteratorBase const&)"
    yield from f"""\
https://github.com/vosen/ZLUDA/releases/download/v6-preview.69/zluda-windows-87531d3.zip
vosen/ZLUDA@87531d3 cuda_check/src/win.rs
sha256-{base64.b64encode(bytes.fromhex(digest)).decode()}
torch/lib/x.so,sha256={segment(32)},1234
torch-2.4.0+rocm6.1-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl
/usr/lib/python3/dist-packages/torch/lib/libtorch_hip_kernels_gfx1030_gfx1100.so
C:\\Program Files\\AMD\\ROCm\\6.4\\bin\\amdhip64_6.dll
C:\\Windows\\System32\\DriverStore\\FileRepository\\u0412345.inf_amd64_0123456789abcdef\\B412345\\amdhip64.dll
PCI\\VEN_1002&DEV_7590&SUBSYS_0000148C&REV_C0
amdgcn-amd-amdhsa--gfx1030:sramecc+:xnack-
the token bucket has no secret, a serial port neither
password is wrong, token expired, the cookie was refused
invalid token near line 12
unexpected token: end of file
CUDA error: no kernel image is available for execution on the device
listening on 127.0.0.1:8080 and 0.0.0.0:9000, also on [::1]:80
std::vector<int>::push_back, at::native::add_kernel, cafe::add
PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True
HSA_OVERRIDE_GFX_VERSION=11.0.0 HIP_VISIBLE_DEVICES=0,1 ZLUDA_CC=8.6
max_tokens=2048 n_tokens = 4096 tokens/s: 35.2
tokenizer: bpe, secretary: Bob, compass: north, bypass=1, cache_key=model
PASS: test_gemm, pass: 12, passed: 5, outcome: pass
PWD=/usr/lib/rocm
pwd: C:\\Program Files\\AMD
serial: none
password: ***
token: null
secret=<redacted>
CUDAExecutionProvider, MIGraphXExecutionProvider, ROCMExecutionProvider
cudaErrorNoKernelImageForDevice CUBLAS_STATUS_NOT_SUPPORTED CUDNN_STATUS_EXECUTION_FAILED_CUDART
hipErrorInvalidDeviceFunction miopenStatusUnknownError
libcudnn_ops_infer64_8.dll cublasLt64_11.dll nvrtc-builtins64_118.dll
Build cuda_11.8.r11.8/compiler.31833905_0
clang version 18.0.0git (https://github.com/RadeonOpenCompute/llvm-project roc-6.1.2 24193)
file:///usr/share/doc/rocm/html/index.html
docs/users/guide.html and https://example.org/home/page
0x00007ff6a1b2c3d4 nvcuda!cuInit+0x1234
[ 1234.567890] amdgpu 0000:03:00.0: amdgpu: SMU is initialized successfully!
Device 7590 subsystem 148c:2412 rev c0, 16304 MiB VRAM
5 files, 35,506,692 bytes, 12.5 MB/s, 100 %
numpy==1.26.4 scipy>=1.11,<2 pillow@10.4.0 python3.11
registers: 0-3, 4-7; cores 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
key: value, keyboard: de, keys=12, monkey=1
signature: (self, x: int) -> None
The signature of the function does not match
session started, session 3 of 5
AMD Radeon RX 9070 XT, AMD Ryzen 7 9800X3D 8-Core Processor
SM 8.6, compute_86, sm_90a, gfx90a:sramecc+:xnack-
Win32Exception 0x80004005, NTSTATUS 0xC0000135, exit code -1073741515
vc_redist.x64.exe MSVCP140.dll VCRUNTIME140_1.dll api-ms-win-crt-runtime-l1-1-0.dll
libstdc++.so.6(GLIBCXX_3.4.30) libc.so.6(GLIBC_2.35)
2026/11/30 15:00:07 10:20:30.400 1:02:03:04
ratio 16:9 3840x2160@144 HDR10 10bpc
user: none, users: 3, username:
auth=none author=AMD authority: none
run --token-limit 12 --passes 3 --secretless
export HIP_PLATFORM=amd; export ROCM_VERSION=6.2.0
hipblasltExtOpAMax_f32_gfx942 rocblas_gemm_ex3 TensileLibrary_Type_HH_Contraction_l_Alik_Bljk_Cijk_Dijk_gfx1100.co
TensileLibrary_lazy_gfx1030.dat Kernels.so-000-gfx1100-xnack-.hsaco
ComputeCapability=8.6;MultiProcessorCount=32;WarpSize=32;L2CacheSize=67108864
SoftwareAdapter D3D12CreateDevice DXGI_ERROR_DEVICE_REMOVED 0x887A0005
transformers.models.llama.modeling_llama.LlamaForCausalLM
model-00001-of-00004.safetensors Q4_K_M.gguf llama-2-7b-chat.Q5_K_S.gguf
""".splitlines()
    for n in range(20):
        yield f"kernel_{n}_gfx11{n:02}_fp16_NHWC_K3x3_S1_P{n} {n * 12.5:.1f} us"


HARMLESS = list(harmless())


def test_the_corpus_has_the_size_it_is_named_for() -> None:
    assert len(LINES) >= 300
    assert len(HARMLESS) >= 200
    assert len({secret for _, secret in LINES}) == len(LINES)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_planted_secrets_go(encoding: str, record_property: Callable[[str, object], None]) -> None:
    log = "\n".join(f"{n} {line}\nnext" for n, (line, _) in enumerate(LINES))
    clean = redact_bytes(log.encode(encoding), REDACTOR).decode(encoding)
    left = [line for line, secret in LINES if secret in clean]
    record_property("tried: planted secrets", len(LINES))
    record_property("tried: of these found", len(LINES) - len(left))
    assert len(left) <= 0.01 * len(LINES), left


@pytest.mark.parametrize("escape", ["url", "json"])
def test_planted_secrets_go_in_escapes(escape: str) -> None:
    def written(text: str) -> str:
        return quote(text, safe=" ") if escape == "url" else text.replace("\\", "\\\\").replace('"', '\\"')

    cases = [(line, secret) for line, secret in LINES if "\n" not in line]
    left = [line for line, secret in cases if written(secret) in REDACTOR.text(f"{written(line)} next")]
    assert len(left) <= 0.05 * len(cases), left


def test_harmless_look_alikes_stay(record_property: Callable[[str, object], None]) -> None:
    hurt = [(line, REDACTOR.text(line)) for line in HARMLESS if REDACTOR.text(line) != line]
    record_property("tried: harmless lines", len(HARMLESS))
    record_property("tried: of these changed", len(hurt))
    assert len(hurt) <= 0.01 * len(HARMLESS), hurt
    log = "\n".join(HARMLESS)
    assert (
        sum(a != b for a, b in zip(log.split("\n"), REDACTOR.text(log).split("\n"), strict=True))
        <= len(hurt) + 1
    )


def test_redacting_twice_changes_nothing_more() -> None:
    clean = REDACTOR.text("\n".join(line for line, _ in LINES))
    assert REDACTOR.text(clean) == clean


@pytest.mark.proof
def test_a_large_log_takes_seconds() -> None:
    lines = [*HARMLESS, *(line for line, _ in LINES[::10]), "open /home/gwendolyn/x on tower4711"] * 2
    log = "\n".join(lines * (10_000_000 // sum(map(len, lines)) + 1)).encode()[:10_000_000]
    before = time.process_time()
    redact_bytes(log, REDACTOR)
    spent = time.process_time() - before
    print(f"10 MB redacted in {spent:.2f} s")
    assert spent < 30, "measured: see the figure printed; the bound has room for a busy machine"


#: Lines of ordinary logs in which something looks like an escape, and one of each that hides a name.
ESCAPED = {
    "paths": ("D:\\build\\x64\\Release\\kernel{}.cpp(12): note C4819", "C:\\x64\\ {} \\x67wendolyn"),
    "json": (
        '{{"file": {}, "text": "gepr\\u00fcft"}}',
        '{{"file": {}, "text": "gepr\\u00fcft \\u0067wendolyn"}}',
    ),
    "url": ("GET /a%20file/{} 200", "GET /a%20file/{}/%67wendolyn 200"),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ESCAPED)
def test_a_large_log_with_escapes_is_searched_in_a_few_views(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Counted, not timed: a view of each line would show in their number, a line searched twice in their size."""
    sizes: list[int] = []

    class Counted(View):
        def __init__(self, text: str) -> None:
            sizes.append(len(text))
            super().__init__(text)

    monkeypatch.setattr(redaction, "View", Counted)
    plain, named = ESCAPED[kind]
    lines = [(named if n % 1000 == 7 else plain).format(n) for n in range(4000)]
    log = "\n".join(lines)
    clean = REDACTOR.text(log)
    assert len(sizes) <= 8
    assert sum(sizes) <= 8 * len(log)
    assert [n for n, line in enumerate(clean.split("\n")) if line != lines[n]] == [7, 1007, 2007, 3007]


@pytest.mark.parametrize("escape", ["\\u0067", "%67", "&#103;", "g\u200b"])
def test_lines_with_escapes_are_redacted_as_if_each_stood_alone(escape: str) -> None:
    lines = [line for line, _ in LINES[::4] if "\n" not in line]
    ends = [
        "password:",
        "Authorization: bearer",
        "version",
        "-----BEGIN RSA PRIVATE KEY-----",
        "machine x login y",
    ]
    starts = ["Secretword99", "192.168.1.20", "-----END RSA PRIVATE KEY-----", "password Secretword99"]
    lines += itertools.chain.from_iterable(itertools.product(ends, starts))
    lines = [f"{escape}o {line}" if line in ends else f"{line} {escape}o" for line in lines]
    assert found_in("\n".join(lines)) == {
        (n, *span) for n, line in enumerate(lines) for _, *span in found_in(line)
    }


def found_in(text: str) -> set[tuple[int, int, int, str]]:
    """Return what is found in a text without its escapes: the line, where in it, and what takes its place."""
    starts = [0, *(at + 1 for at, character in enumerate(text) if character == "\n")]
    views = 0

    def find(view: View) -> Iterator[Span]:
        nonlocal views
        views += 1
        if views > 1:  # the first is of the text as it stands
            yield from secrets_in(view)
            yield from redaction.folders_in(view)

    found = set()
    for start, end, put in redaction.everywhere(text, find):
        line = bisect_right(starts, start) - 1
        found.add((line, start - starts[line], end - starts[line], put))
    return found


@pytest.mark.proof
@pytest.mark.parametrize(
    "unit",
    [
        *("a", "token ", "x=", "\\", ":", "@", "a1B2", "/home/", "password: ", "1.", "h:"),
        *("\\u0067", "%67", "&#103;", "&#", "\u200b", "Gwendolyn6"),
    ],
)
def test_an_endless_line_takes_linear_time(unit: str) -> None:
    spent = []
    for size in (200_000, 800_000):
        before = time.process_time()
        REDACTOR.text(unit * (size // len(unit)))
        spent.append(time.process_time() - before)
    assert spent[1] < 12 * spent[0] + 0.5
