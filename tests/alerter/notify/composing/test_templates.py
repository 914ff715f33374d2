"""A site's own templates: they replace ours by name, are tried at the start, and harm neither memory nor delivery."""

from __future__ import annotations

import logging
from dataclasses import fields
from pathlib import Path

import pytest

from dutycycle_alerter.errors import ConfigError
from dutycycle_alerter.notify.composing import Composition, content
from dutycycle_alerter.notify.composing.templates import NAMES
from dutycycle_alerter.notify.model import Recipient, To
from tests.alerter.notify.composing.parcels import ALICE, SITE, composition, idle_on_slurm, settings, told

DOCS = Path(__file__).parents[4] / "docs" / "messages.md"
IDLE = told(idle_on_slurm(), to=ALICE)


def with_templates(directory: Path, **files: str) -> Composition:
    """A composer of a site with these templates; `_` in a name stands for `.`, and `.j2` is added."""
    for name, text in files.items():
        (directory / f"{name.replace('_', '.')}.j2").write_text(text, encoding="utf-8")
    return composition(settings(notify={**SITE["notify"], "templates": str(directory)}))


def test_a_template_of_the_site_replaces_the_built_in_one_of_its_name(tmp_path: Path) -> None:
    mail = with_templates(tmp_path, mail_subject="GPUs: {{ stories[0].name if stories }}").mail(IDLE)
    assert mail.subject == "GPUs: slurm/4711"
    assert mail.text == composition().mail(IDLE).text


def test_a_template_of_the_site_may_include_the_built_in_parts(tmp_path: Path) -> None:
    text = '{% import "_story.text.j2" as story %}Hello {{ user }}!\n{{ story.full(stories[0]) if stories }}'
    said = with_templates(tmp_path, mail_text=text).mail(IDLE).text
    assert said.startswith("Hello alice!\nYour job slurm/4711")


def test_a_site_may_have_parts_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "_ours.j2").write_text("from the GPU team")
    assert with_templates(tmp_path, mail_subject='News {% include "_ours.j2" %}').mail(IDLE).subject == (
        "News from the GPU team"
    )


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("line\n{% if %}", 2, "Expected an expression"),
        ("{{ kind }}\n\n{{ incident }}", 3, "'incident' is undefined"),
        ("{% for s in stories %}\n{{ s.job }}{% endfor %}", 2, "has no attribute 'job'"),
        ("{{ report.lines }}", 1, "has no attribute 'lines'"),
        ("{{ 1 / 0 }}", 1, "ZeroDivisionError"),
        ("{{ kind.__class__ }}", 1, "unsafe"),
        ("{{ kind.center(1000000000) }}", 1, "unsafe"),
        ("{{ 'x' * 1000000000 }}", 1, "for figures"),
        ("{{ 9 ** 9 ** 9 ** 9 }}", 1, "for figures"),
        ("{{ '%01000000000d' % 1 }}", 1, "for figures"),
        ("{% for a in range(10 ** 9) %}.{% endfor %}", 1, "for figures"),
        ("{% for a in range(1000000000) %}.{% endfor %}", 1, "ranges of more than"),
        ("{% for a in range(2000) %}{% for b in range(2000) %}{% endfor %}{% endfor %}", 1, "ranges of more than"),
        ("{% for a in range(9000) %}" + "x" * 99 + "{% endfor %}", None, "puts out more than"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", 1, "RecursionError"),
        ("{{ cycler }}", 1, "undefined"),
        ("{% autoescape false %}{{ user }}{% endautoescape %}", 1, "autoescape cannot be changed"),
        ("{{ '{:>300000000}'.format(1) }}", 1, "unsafe"),
        ("{{ ('{:>300000000}' | string)['format'](1) }}", 1, "unsafe"),
        ("{{ stories.count }}", 1, "unsafe"),
        ("{{ 'x' | batch(50000000, 'x') | list }}", 1, "No filter named 'batch'"),
        ("{{ 'x' | slice(20000000) | list }}", 1, "No filter named 'slice'"),
        ("{{ 1 | round(-400000000) }}", 1, "No filter named 'round'"),
        (
            "{{ range(9999) | join('x,' | replace('x', 'y' | replace('y', kind ~ kind ~ kind ~ kind))) }}",
            1,
            "join makes",
        ),
        ("{{ (range(9000) | join) | replace('1', 'yyyyyyyyyy') }}", 1, "replace could make"),
        (
            "{% macro f(n, s) %}{{ f(n - 1, s ~ s) if n else s }}{% endmacro %}{{ f(40, 'xx') }}",
            1,
            "a text of more than",
        ),
        (
            "{% macro f(n, s) %}{{ f(n - 1, s + s) if n else s }}{% endmacro %}{{ f(40, 'xx') }}",
            1,
            "a text of more than",
        ),
        (
            "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% else %}xxxxx{% endif %}{% endmacro %}{{ f(17) }}",
            1,
            "a text of more",
        ),
        ("{% macro f(n, s) %}{{ f(n - 1, s * s) if n else s }}{% endmacro %}{{ f(40, 9) }}", 1, "for figures"),
        ("{{ [1, 2] + [3] }}", 1, "for figures"),
        ("{{ kind | format }}", 1, "No filter named 'format'"),
        ("{% include '/etc/passwd' %}", 1, "/etc/passwd"),
        ("{% include '../../secret' %}", 1, "../../secret"),
        ("{% extends 'missing.j2' %}", 1, "missing.j2"),
    ],
)
def test_a_mistake_is_an_error_of_the_configuration_with_file_and_line(
    tmp_path: Path, text: str, line: int | None, said: str
) -> None:
    with pytest.raises(ConfigError) as error:
        with_templates(tmp_path, mail_text=text)
    place = str(tmp_path / "mail.text.j2")
    assert str(error.value).startswith(place if line is None else f"{place}:{line}: ")
    assert said in str(error.value)


@pytest.mark.parametrize("name", NAMES)
def test_every_template_is_tried_with_every_kind_of_message(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("{{ nothing }}")
    with pytest.raises(ConfigError, match="'nothing' is undefined"):
        with_templates(tmp_path)


@pytest.mark.parametrize(
    ("name", "content_", "said"),
    [
        ("mail.j2", b"", "there is no such template"),
        ("mail.text.j2", b"\xff\xfe", "is not UTF-8"),
        ("mail.text.j2", b"x" * 200_001, "larger than 200 kB"),
    ],
)
def test_a_file_that_is_no_template_is_an_error(tmp_path: Path, name: str, content_: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content_)
    with pytest.raises(ConfigError, match=said):
        with_templates(tmp_path)


def test_a_directory_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        with_templates(tmp_path / "missing")


def test_other_files_beside_the_templates_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("{{ nothing }}")
    assert with_templates(tmp_path).mail(IDLE) == composition().mail(IDLE)


def test_a_template_that_fails_later_is_replaced_and_said_so_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    composer = with_templates(tmp_path, mail_text="{{ kind }}\n{% if user == 'zed' %}{{ 1 / 0 }}{% endif %}")
    parcel = told(idle_on_slurm(), to=Recipient(To.OWNER, "zed"))
    assert composer.mail(IDLE).text == "incidents\n"
    with caplog.at_level(logging.ERROR):
        mails = [composer.mail(parcel) for _ in range(3)]
    assert mails == [composition().mail(parcel)] * 3
    assert len(caplog.records) == 1
    assert f"{tmp_path}/mail.text.j2:2: " in caplog.text


def test_a_template_that_puts_out_nothing_leaves_nobody_untold(tmp_path: Path) -> None:
    composer = with_templates(tmp_path, mail_text="{% if to == 'operators' %}x{% endif %}\n")
    assert composer.mail(IDLE) == composition().mail(IDLE)


def test_usual_templates_have_what_they_need(tmp_path: Path) -> None:
    text = (
        "{{ 1 + 2 * 3 - 4 // 3 }} {{ 'a' + 'b' ~ 'c' }} {{ ['x', 'y'] | join(', ') }} {{ 'a_b' | replace('_', ' ') }} "
        "{{ 'idle' | upper }} {{ stories | map(attribute='id') | join('+') }} {{ 'abcdefghijkl' | truncate(5, true) }}"
    )
    assert with_templates(tmp_path, mail_text=text).mail(IDLE).text == "6 abc x, y a b IDLE 7 ab...\n"


def test_html_of_the_site_is_escaped_too(tmp_path: Path) -> None:
    text = '{% import "_phrases.j2" as p %}{{ user }}{{ stories[0].name ~ "<" if stories }}{{ p.title(message) }}'
    composer = with_templates(tmp_path, mail_html=text)
    parcel = told(idle_on_slurm(), to=Recipient(To.OWNER, "<b>"))
    assert composer.mail(parcel).html.startswith("&lt;b&gt;slurm/4711&lt;")


def test_every_variable_is_documented() -> None:
    text = DOCS.read_text(encoding="utf-8")
    for shape in (content.Message, content.Story, content.Telling, content.Place, content.Command, content.Costs):
        for field in fields(shape):
            assert f"`{field.name}`" in text, f"docs/messages.md does not explain {shape.__name__}.{field.name}"
    for name in NAMES:
        assert f"`{name}`" in text
