"""What the redactor looks for, as data: labels, shapes of tokens, identifiers, words that say nothing.

A rule names literals that must stand in a text for it to apply, so that a large log is searched for a few
literals and not by hundreds of expressions. Repetitions have bounds: a log may be one endless line.

Sources of the tokens' shapes: the vendors' own documentation of their credentials, and the public lists of
GitHub secret scanning.
"""

from __future__ import annotations

import re
from typing import Final

#: Names of accounts and machines that are also words of our own texts.
ORDINARY: Final = frozenset(
    re.findall(
        r"\w+",
        """
        admin administrator amd app benutzer bin build cache check code cpu cuda data default desktop dev
        docker download downloads driver email error file gaming gpu guest home hip host laptop layer library
        linux local localhost machine main none nvidia path pc player program public python radeon redacted
        report rocm root run runner runtime secret serial server stack stage system target temp test tests tmp
        token tool torch unknown user users utilisateur version windows work workspace zluda
        """,
    )
)
SHARED_FOLDERS: Final = frozenset({"public", "default", "default user", "all users", "shared", "<user>"})

#: What stands between a label and its value: a sign, or only blanks.
SIGN: Final = r"\\{0,3}[\"']?\s{0,9}(?:[:=]{1,2}>?|\#|%3[adAD])\s{0,9}"
BLANK: Final = r"[\"']?[ \t\r\n]{1,9}"
#: A value in quotes to its closing quote, else to the next blank or delimiter.
VALUE: Final = (
    r"(?:(?P<quote>\\{0,3}[\"'])(?P<quoted>(?!<)(?:\\.|[^\\\r\n]){1,4000}?)(?=(?P=quote)|[\r\n]|\Z)"
    r"|(?P<plain>(?!<)(?:(?:basic|bearer|token|digest|negotiate|ntlm|apikey)\s+)?"
    r"[^\s\"'&,;<>\\]{1,4000}(?:[,\\][^\s\"'&,;<>\\]{1,4000}){0,9}))"
)
LINE: Final = r"(?P<plain>(?![<\s])[^\r\n'\"]{1,4000})"

_KEYS: Final = (
    r"(?:api|access|account|auth|client|consumer|deploy|encryption|licen[cs]e|master|private|product|secret"
    r"|shared[-_ ]?access|signing|ssh|storage|subscription)[-_ ]?key"
)
_KEY_WORDS: Final = (
    *("api", "access", "account", "auth", "client", "consumer", "deploy", "encryption", "licen", "master"),
    *("private", "product", "shared", "signing", "ssh", "storage", "subscr"),
)
_PASSWORDS: Final = (
    *("kennwort", "mot de passe", "contraseña", "senha", "heslo", "wachtwoord", "hasło", "lösenord"),
    *("salasana", "şifre", "пароль", "密码", "密碼", "パスワード", "비밀번호"),
)
#: Labels of secrets: the literal by which they are found, and the expression from there on. What stands
#: before belongs to the label too (HF_TOKEN, my.password).
SECRETS: Final[tuple[tuple[str, str], ...]] = (
    ("token", r"token(?:[-_]?(?:id|value|key|secret|\d{1,3}))?s?"),
    ("passw", r"passw(?:or[dt]|d)?(?:[-_]?(?:value|hash|\d{1,3}))?s?"),
    ("passphrase", "passphrase"),
    ("passcode", "passcode"),
    ("secret", r"secret(?:[-_ ]?(?:access)?[-_ ]?(?:key|id|value|\d{1,3}))?s?"),
    ("credential", r"credentials?"),
    ("authorization", "authorization"),
    ("pwd", r"pwd(?![\w])"),
    ("_pass", r"_pass(?![\w])"),
    ("-pass", r"-pass(?![\w])"),
    ("bearer", "bearer"),
    ("otp", r"(?<![a-z])otp(?![\w])"),
    ("_auth", r"(?<![a-z0-9])_auth(?![\w])"),
    ("sig", r"(?<![a-z])sig(?:nature)?(?![\w])"),
    ("x-amz-", r"x-amz-(?:signature|credential|security-token)"),
    ("x-goog-", r"x-goog-(?:signature|credential)"),
    ("session", r"session(?:[-_ ]?(?:id|key|cookie))(?![\w])"),
    ("jsessionid", "jsessionid"),
    ("phpsessid", "phpsessid"),
    ("?key", r"\?key"),
    ("&key", r"&key"),
    *((word, _KEYS + r"(?:[-_ ]?id)?s?") for word in _KEY_WORDS),
    *((word, word) for word in _PASSWORDS),
)
#: Labels whose value is the rest of the line.
HEADERS: Final[tuple[tuple[str, str], ...]] = (
    ("cookie", r"cookies?2?"),
    ("authorization", rf"authorization(?={SIGN}\\{{0,3}}[\"']?digest\s)"),
)
#: Labels of serial numbers and of other numbers that belong to one machine.
SERIALS: Final[tuple[tuple[str, str], ...]] = (
    ("serial", r"serial(?:[ _-]?(?:number|num|no\.?|nr\.?|id|\#))?"),
    ("serien", r"serien[ -]?(?:nummer|nr\.?)"),
    ("serienummer", "serienummer"),
    ("ro de s", r"ro de s.{1,6}rie"),
    ("ro di serie", "ro di serie"),
    ("seryjny", "seryjny"),
    ("s/n", r"(?<![a-z])s/n"),
    ("sn", r"(?<![a-z0-9])sn(?![\w])"),
    ("service tag", "service tag"),
    ("asset tag", "asset tag"),
    ("imei", r"(?<![a-z])imei"),
    ("machine", r"machine[-_ ]?(?:id|guid)"),
    ("unique", r"unique[-_ ]?id"),
    ("uuid", r"(?<![a-z])uuid"),
    *((word, word) for word in ("серийный номер", "序列号", "序列號", "シリアル番号", "일련번호")),
)
#: Labels of addresses written without separators.
ADDRESSES: Final[tuple[tuple[str, str], ...]] = (
    ("mac", r"(?<![a-z])mac(?:[-_ ]?addr(?:ess)?)?(?![\w])"),
    ("ether", r"(?<![a-z])ether(?![\w])"),
    ("hwaddr", "hwaddr"),
    ("physical", r"physical[-_ ]address"),
)
#: Identifiers that begin with a word of their own: that word, the expression from there on (its group is what
#: is hidden), and what takes its place.
WORDED: Final[tuple[tuple[str, str, str], ...]] = (
    ("s-1-", r"S-1-(?:5-21|12-1)(?:-\d{1,10}){3,15}", "<sid>"),
    ("gpu-", r"GPU-([0-9a-f]{12,32})(?![0-9a-f-])", "<serial>"),
)
#: Identifiers with a shape of their own: what takes their place, the shape (``h``: a hexadecimal digit,
#: ``d``: a digit, ``A``: a digit or a capital), and what must not stand beside it.
SHAPED: Final[tuple[tuple[str, str, str], ...]] = (
    ("<uuid>", "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh", "h"),
    ("<mac>", "hh:hh:hh:hh:hh:hh", "h:-"),
    ("<mac>", "hh-hh-hh-hh-hh-hh", "h:-"),
    ("<mac>", "hhhh.hhhh.hhhh", "h."),
    ("<serial>", "-".join(["d" * 6] * 8), ""),  # a recovery key of Windows
    ("<serial>", "ddddd-ddddd-ddddd", ""),  # a product's id
    ("<serial>", "-".join(["A" * 5] * 5), "A-"),  # a product's key
)
#: Keys of data whose value is hidden whole, whatever it is.
SENSITIVE_KEY: Final = re.compile(
    r".*(?:token|passw(?:or)?d|passphrase|passcode|pwd|_pass|secret|credential|"
    + _KEYS
    + r"(?:[-_ ]?id)?|authorization|cookie|signature|serial(?:[-_ ]?n(?:umber|o))?|uuid|unique[-_ ]?id"
    r"|mac(?:[-_ ]?addr(?:ess)?)?|host[-_ ]?name|user[-_ ]?name)s?$",
    re.IGNORECASE,
)
#: Keys of data whose value is a version where it looks like one.
VERSION_KEY: Final = re.compile(r".*(?:version|driver|release|build|toolkit)s?$", re.IGNORECASE)
VERSION_TEXT: Final = re.compile(r"v?\d{1,6}(?:\.\d{1,6}){1,4}")
#: Values that hide nothing.
EMPTY: Final = re.compile(
    r"(?:none|null|nil|true|false|yes|no|on|off|empty|unset|set|missing|required|optional|expired|invalid|denied"
    r"|unknown|n/?a|not|is|was|and|or|the|\.{2,}|\*+|x{3,}|-+|[{\[(].*|\$\{?\w+\}?|%\w+%)[.,;)]?",
    re.IGNORECASE,
)

#: Shapes of tokens: literals (the token begins with one of them, as written) and the rest.
TOKENS: Final[tuple[tuple[tuple[str, ...], str], ...]] = (
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"[A-Za-z0-9]{20,255}"),
    (("github_pat_",), r"\w{20,255}"),
    (("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glimt-", "glagent-", "gloas-", "glsoat-"),
     r"[\w.-]{16,255}"),
    (("hf_", "api_org_"), r"[A-Za-z0-9]{16,255}"),
    (("sk-", "sess-", "xai-", "pplx-", "tskey-", "nvapi-", "gsk_", "r8_", "fw_"), r"[\w-]{16,300}"),
    (("xoxa-", "xoxb-", "xoxe-", "xoxp-", "xoxr-", "xoxs-", "xapp-"), r"[\w-]{10,300}"),
    (("pypi-", "npm_", "dckr_pat_", "rubygems_", "cio"), r"[\w-]{24,300}"),
    (("AKIA", "ASIA", "ABIA", "ACCA"), r"[A-Z0-9]{16}(?![A-Za-z0-9])"),
    (("AIza",), r"[\w-]{35}"),
    (("ya29.", "GOCSPX-", "1//0"), r"[\w-]{20,300}"),
    (("sk_live_", "sk_test_", "rk_live_", "rk_test_", "pk_live_", "pk_test_", "whsec_"),
     r"[A-Za-z0-9]{10,255}"),
    (("SG.",), r"[\w-]{16,32}\.[\w-]{16,64}"),
    (("dop_v1_", "doo_v1_", "dor_v1_"), r"[0-9a-f]{64}"),
    (("sq0atp-", "sq0csp-", "EAAA"), r"[\w-]{22,300}"),
    (("shpat_", "shpca_", "shppa_", "shpss_"), r"[0-9a-fA-F]{32}"),
    (("dapi",), r"[0-9a-f]{32}(?:-\d)?"),
    (("lin_api_", "ntn_", "secret_", "figd_", "glc_", "glsa_", "pul-", "sbp_", "sntrys_", "sntryu_",
      "wandb_v1_"), r"[\w+/=-]{20,400}"),
    (("hvs.", "hvb.", "hvr.", "dp.pt.", "dp.st.", "fo1_", "ops_eyJ"), r"[\w.-]{20,400}"),
    (("PMAK-", "NRAK-", "HRKU-", "ATATT3", "ATBB", "KGAT_", "EZAK", "EZTK"), r"[\w=-]{16,300}"),
    (("AGE-SECRET-KEY-1",), r"[A-Z0-9]{40,80}"),
    (("dt0c01.",), r"[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    (("eyJ",), r"[\w-]{8,4000}\.[\w-]{8,4000}\.[\w-]{0,4000}"),
    (("https://hooks.slack.com/services/", "https://discord.com/api/webhooks/"), r"[\w/-]{20,200}"),
)  # fmt: skip
#: Tokens that begin with nothing of their own; the literal stands inside.
INNER_TOKENS: Final[tuple[tuple[str, str], ...]] = (
    ("Q~", r"(?<![\w~.-])[\w~.]{3}\dQ~[\w~.-]{31,34}(?![\w~.-])"),
    (":AA", r"(?<!\d)\d{8,10}:AA[\w-]{33}(?![\w-])"),
    ("-us", r"(?<![0-9a-f])[0-9a-f]{32}-us\d{1,2}(?!\d)"),
    (".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,70}"),
)
#: Blocks of armoured keys.
BLOCKS: Final = re.compile(
    r"-----BEGIN ([A-Z0-9 ]{0,40}(?:PRIVATE KEY|KEY BLOCK|MESSAGE)[A-Z ]{0,20})-----"
    r"[\s\S]{0,40000}?(?:-----END \1-----|\Z)|PuTTY-User-Key-File-\d[\s\S]{0,40000}?Private-MAC: [0-9a-f]+"
)
#: What stands before an address although its numbers could be a version's.
ADDRESS: Final = re.compile(
    r"(?:\bip|addr(?:ess)?|host|peer|server|gateway|dns|inet|client|remote|from|to|//)[\"']?\s*[:=(]?\s*[\"']?$",
    re.IGNORECASE,
)
#: What stands before four numbers with dots that are a version and no address.
VERSION: Final = re.compile(
    r"(?:v(?:er(?:sion)?)?\.?|version[a-z]*|release|driver|build|kernel|firmware|runtime|toolkit|rocm|hip|sdk|zluda"
    r"|cuda|cudnn|cublas|python|windows|adrenalin|dll|[=<>~!]=|[-_/@])[\"']?\s*[:=(]?\s*[\"']?$",
    re.IGNORECASE,
)
