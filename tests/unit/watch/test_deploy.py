"""The files of deploy/: they parse, and every metric that they name exists."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest
from tests.support.wire_samples import ROOT

from partage.watch.prometheus_metrics import METRICS

DEPLOY = ROOT / "deploy"
RULES = DEPLOY / "prometheus" / "partage.rules.yml"
DASHBOARD = DEPLOY / "grafana" / "partage.json"
EXPOSED = {f"{one.name}_total" if one.type == "counter" else one.name for one in METRICS.values()}


def metrics_in(text: str) -> set[str]:
    return set(re.findall(r"\bpartage_[a-z_]+", text))


def expressions(dashboard: dict) -> list[str]:
    return [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_dashboard_and_alerts_name_metrics_that_exist() -> None:
    """No panel and no alert is about a metric that the exporter does not have."""
    dashboard = json.loads(DASHBOARD.read_text("utf-8"))
    named = metrics_in(" ".join(expressions(dashboard)))
    assert named
    assert named <= EXPOSED
    alerts = metrics_in(RULES.read_text("utf-8"))
    assert len(alerts) > 5
    assert alerts <= EXPOSED


def test_the_guide_names_every_metric() -> None:
    """The table of docs/guides/watch.md has all metrics and no other."""
    page = (ROOT / "docs" / "guides" / "watch.md").read_text("utf-8")
    assert metrics_in(page) == EXPOSED


def test_the_dashboard_is_complete() -> None:
    """Panels have ids, titles, a place and a data source that the user chooses."""
    dashboard = json.loads(DASHBOARD.read_text("utf-8"))
    panels = dashboard["panels"]
    assert len({one["id"] for one in panels}) == len(panels) > 8
    for panel in panels:
        assert panel["title"]
        assert panel["description"]
        assert panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24
        assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert {one["name"] for one in dashboard["templating"]["list"]} == {"datasource", "group"}


def test_the_yaml_files_have_the_fields_of_their_kinds() -> None:
    """Alerts have an expression and a summary; manifests agree about names, ports and volumes."""
    yaml = pytest.importorskip("yaml")

    def parsed(name: str) -> dict:
        return yaml.safe_load((DEPLOY / name).read_text("utf-8"))

    rules = [
        one for group in parsed("prometheus/partage.rules.yml")["groups"] for one in group["rules"]
    ]
    assert len({one["alert"] for one in rules}) == len(rules)
    for one in rules:
        assert one["expr"]
        assert one["labels"]["severity"] in {"info", "warning", "critical"}
        assert one["annotations"].keys() == {"summary", "description"}
    assert RULES.name in parsed("prometheus/prometheus.yml")["rule_files"]
    base = parsed("kustomize/kustomization.yaml")
    assert all((DEPLOY / "kustomize" / one).is_file() for one in base["resources"])
    work, service = parsed("kustomize/capture.yaml"), parsed("kustomize/service.yaml")
    pod = work["spec"]["template"]
    assert work["spec"]["selector"]["matchLabels"] == pod["metadata"]["labels"]
    assert service["spec"]["selector"] == pod["metadata"]["labels"]
    (container,) = pod["spec"]["containers"]
    (port,) = container["ports"]
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    assert f"--metrics=0.0.0.0:{port['containerPort']}" in container["args"]
    volumes = {one["name"] for one in pod["spec"]["volumes"]}
    volumes |= {one["metadata"]["name"] for one in work["spec"]["volumeClaimTemplates"]}
    assert {one["name"] for one in container["volumeMounts"]} == volumes


def test_the_service_and_the_image_call_options_that_exist() -> None:
    """Every long option in the unit, the image and the pod is one of `partage capture`."""
    from typer.main import get_command

    from partage.cli.app import app

    command = get_command(app).commands["capture"]
    known = {one for parameter in command.params for one in parameter.opts}
    unit = (DEPLOY / "systemd" / "partage-capture.service").read_text("utf-8")
    start = unit.partition("ExecStart=")[2].partition("\nStateDirectory")[0]
    image = (DEPLOY / "Dockerfile").read_text("utf-8").partition("ENTRYPOINT")[2]
    pod = (DEPLOY / "kustomize" / "capture.yaml").read_text("utf-8").partition("args:")[2]
    for text in (start, image, pod.partition("env:")[0]):
        options = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
        assert len(options) >= 4
        assert options <= known


@pytest.mark.parametrize("what", ["rules", "config"])
def test_promtool_accepts_rules_and_configuration(what) -> None:
    """Prometheus' own tool parses every expression and template."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is missing (Debian package prometheus)")
    path = RULES if what == "rules" else RULES.with_name("prometheus.yml")
    done = subprocess.run(
        [promtool, "check", what, path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
