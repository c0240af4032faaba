"""Secret settings: recognising them by name, and hiding their values in texts.

A setting is secret if its name matches Spark's default ``spark.redaction.regex``, the user's own
one, or the names under which Kafka's clients take secrets.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache

__all__ = ["HIDDEN", "SPARK_REDACTION", "hide_secrets", "is_secret", "secrets_in", "shown_settings"]

HIDDEN = "[hidden]"
SPARK_REDACTION = r"(?i)secret|password|token|access[.]?key"
"""The default of ``spark.redaction.regex`` in Spark 4."""
REGEX_SETTING = "spark.redaction.regex"

_KAFKA = re.compile(
    r"password|secret|jaas|token|\.key$|account\.key|keystore\.certificate|basic\.auth",
    re.IGNORECASE,
)
_SPARK = re.compile(SPARK_REDACTION)
#: ``name=value`` inside another value: Java options, and options of a JAAS login module.
_EMBEDDED = re.compile(r"""([\w.-]+)\s*=\s*("(?:\\.|[^"\\])*"|'[^']*'|[^\s;,"']+)""")
#: Shorter values, and these words, occur in texts by chance: they are hidden as whole words only.
_SHORT = 4
_COMMON = {"", "true", "false", "none", "null"}
#: The end of a text that was cut (`partage.errors`, `partage.cli.console.shorten_message`).
_CUT = "…"
#: A line break inside a box of the terminal, with blanks and the box's sides; the same, or blanks.
_WRAP = r"(?:[ │|]*\n[ │|]*)?"
_WRAPPED_BLANK = r"[\s│|]+"


def is_secret(name: str, regex: str | None = None) -> bool:
    """Return whether a Spark or Kafka setting holds a secret, judged by the setting's name.

    The value of such a setting must not appear in output or error messages.

    Args:
        name: name of a setting of Spark or of a Kafka client.
        regex: the user's ``spark.redaction.regex``. If Python cannot compile Java's expression,
            every setting counts as secret.

    >>> is_secret("spark.hadoop.fs.s3a.secret.key"), is_secret("spark.executor.memory")
    (True, False)
    >>> is_secret("spark.acme.accessKeyId"), is_secret("spark.acme.pin", "(?i)PIN$")
    (True, True)
    """
    if _KAFKA.search(name) or _SPARK.search(name):
        return True
    if regex is None:
        return False
    try:
        return re.search(regex, name) is not None
    except (re.error, RecursionError):
        return name != REGEX_SETTING


def shown_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return a copy of Spark settings in which secret values are replaced by ``[hidden]``.

    A value that itself matches ``spark.redaction.regex`` is replaced, too.

    >>> shown_settings({"spark.ui.port": "1", "spark.hadoop.fs.s3a.secret.key": "x"})
    {'spark.ui.port': '1', 'spark.hadoop.fs.s3a.secret.key': '[hidden]'}
    """
    regex = settings.get(REGEX_SETTING)
    return {
        name: HIDDEN if name != REGEX_SETTING and _is_hidden(name, value, regex) else value
        for name, value in settings.items()
    }


def _is_hidden(name: str, value: str, regex: str | None) -> bool:
    return is_secret(name, regex) or is_secret(value, regex)


def secrets_in(settings: Mapping[str, str]) -> set[str]:
    """Collect all secret texts in Spark or Kafka settings, such as passwords.

    Output can then hide them, see `hide_secrets`. They are the values of secret settings, passwords
    inside other values (Java options, JAAS configurations), and the lines of a PEM key.

    >>> sorted(secrets_in({"spark.driver.extraJavaOptions": "-Dmy.password=hunter22 -Da=b"}))
    ['hunter22']
    """
    regex = settings.get(REGEX_SETTING)
    found: set[str] = set()
    for name, value in settings.items():
        if name == REGEX_SETTING:
            continue
        if is_secret(name, regex):
            found.add(value)
            lines = [line.strip() for line in value.splitlines()]
            found |= {line for line in lines if len(lines) > 1 and not line.startswith("-----")}
        for inner, text in _EMBEDDED.findall(value):
            if is_secret(inner, regex):
                found |= {text, text.strip("\"'")}
    return {one for one in found if one.strip().lower() not in _COMMON}


def hide_secrets(text: str, secrets: Iterable[str]) -> str:
    """Replace every secret that occurs in a text by ``[hidden]``.

    ``secrets`` are texts such as passwords. A secret is also found if it is escaped (JSON, Python),
    wrapped over lines, or shortened with ``…``.

    >>> hide_secrets("login of me with hunter22 failed", {"hunter22"})
    'login of me with [hidden] failed'
    >>> hide_secrets("the word hunt…", {"hunter22"})
    'the word [hidden]…'
    """
    forms = {form for one in secrets for form in _forms(one)}
    for form in sorted(forms, key=len, reverse=True):
        if len(form) < _SHORT:
            if form in text:
                text = re.sub(rf"(?<!\w){re.escape(form)}(?!\w)", HIDDEN, text)
            continue
        text = text.replace(form, HIDDEN)
        if "\n" in text and form[:1] in text:
            text = _wrapped_pattern(form).sub(HIDDEN, text)
        if _CUT in text:
            text = _hide_shortened(text, form)
    return text


@lru_cache(maxsize=256)
def _wrapped_pattern(secret: str) -> re.Pattern[str]:
    """Return a regular expression that finds a secret in text that a terminal has wrapped.

    The secret may be split over several lines, with blanks or box characters between.
    """
    words = secret.split()
    parts = [_WRAP.join(map(re.escape, word)) for word in words]
    return re.compile(_WRAPPED_BLANK.join(parts) if parts else re.escape(secret))


def _hide_shortened(text: str, secret: str) -> str:
    # A message shows the first characters of a long value, and then an ellipsis.
    before = text.split(_CUT)
    for i, part in enumerate(before[:-1]):
        for length in range(min(len(secret) - 1, len(part)), _SHORT - 1, -1):
            if part.endswith(secret[:length]):
                before[i] = part[:-length] + HIDDEN
                break
    return _CUT.join(before)


def _forms(secret: str) -> set[str]:
    escaped = secret.encode("unicode_escape").decode()
    return {secret, repr(secret)[1:-1], json.dumps(secret)[1:-1], escaped}
