"""The manifests in docs/scale.md are valid YAML, and start the recorder with options that exist."""

import re
from pathlib import Path

import click
import yaml

from wiretape.cli import subcommand

PAGE = Path(__file__).parents[2] / "docs" / "scale.md"


def manifests():
    blocks = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    return [document for block in blocks for document in yaml.safe_load_all(block)]


def test_the_recorders_are_started_with_options_that_exist():
    compose, deployment, service = manifests()
    pod = deployment["spec"]["template"]["spec"]
    (sidecar,) = pod["initContainers"]
    for words in (compose["services"]["recorder"]["command"], sidecar["args"]):
        assert words[0] == "proxy"
        proxy = subcommand("proxy")
        values, rest, _ = proxy.make_parser(click.Context(proxy)).parse_args(words[1:])
        assert values["rotate"]
        assert values["rotate_command"]
        assert not rest
    assert service["spec"]["ports"][0]["targetPort"] == sidecar["ports"][0]["containerPort"]
    assert {mount["name"] for mount in sidecar["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
