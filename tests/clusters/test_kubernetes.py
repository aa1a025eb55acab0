"""The manifests of examples/kubernetes: their schemas, and the variables that pods get."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.clusters import environment, training
from tests.structure.source_tree import REPOSITORY

kubernetes_validate = pytest.importorskip("kubernetes_validate", reason="run `make clusters`")
yaml = pytest.importorskip("yaml", reason="run `make clusters`")

pytestmark = [pytest.mark.clusters, pytest.mark.full]

FOLDER = REPOSITORY / "examples" / "kubernetes"

POD = """
mount --bind {hosts} /etc/hosts
hostname {name}
exec {command}
"""
"""A pod has its own name, and /etc/hosts in the place of the cluster's name server."""


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((FOLDER / name).read_text(encoding="utf-8")))


def job_of(name: str) -> tuple[Any, str, str]:
    """Return the specification of the job, its name, and the subdomain of its pods."""
    if name == "job.yaml":
        service, job = documents(name)
        assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
        assert job["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"]
        return job["spec"], job["metadata"]["name"], service["metadata"]["name"]
    (jobs,) = documents(name)
    (replicated,) = jobs["spec"]["replicatedJobs"]
    # JobSet names jobs so, and sets the subdomain of their pods.
    whole = f"{jobs['metadata']['name']}-{replicated['name']}-0"
    return replicated["template"]["spec"], whole, jobs["spec"]["network"]["subdomain"]


def test_the_indexed_job_has_the_schema() -> None:
    for each in documents("job.yaml"):
        kubernetes_validate.validate(each, kubernetes_validate.latest_version(), strict=True)


def test_the_job_in_the_job_set_has_the_schema() -> None:
    """The schema of JobSet itself is in no package."""
    spec, name, _ = job_of("jobset.yaml")
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}
    kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)


def test_a_misspelled_field_has_not() -> None:
    _, job = documents("job.yaml")
    job["spec"]["completion"] = job["spec"].pop("completions")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(job, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.parametrize("manifest", ["job.yaml", "jobset.yaml"])
def test_training_with_the_variables_of_pods(manifest: str, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("pods have names and /etc/hosts of their own, which takes root")
    spec, job, subdomain = job_of(manifest)
    (container,) = spec["template"]["spec"]["containers"]
    count = spec["completions"]
    assert spec["completionMode"] == "Indexed"
    hosts = tmp_path / "hosts"
    lines = ["127.0.0.1 localhost"]
    for index in range(count):
        name = f"{job}-{index}"
        domain = f"{name}.{subdomain}"
        lines.append(f"127.0.1.{index + 1} {domain}.default.svc.cluster.local {domain} {name}")
    hosts.write_text("\n".join(lines) + "\n", encoding="utf-8")
    pods = []
    for index in range(count):
        name = f"{job}-{index}"
        given = {
            each["name"]: each.get("value", "secret of this test") for each in container["env"]
        }
        given |= {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "JOB_COMPLETION_INDEX": str(index)}
        command = f"{sys.executable} -m tests.clusters.training data {tmp_path}"
        script = POD.format(hosts=hosts, name=name, command=command)
        pods.append(
            subprocess.Popen(
                ["unshare", "--mount", "--uts", "sh", "-e", "-c", script],
                cwd=REPOSITORY,
                env={**environment.own_environment(tmp_path), **given, "HOSTNAME": name},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    try:
        printed = [pod.communicate(timeout=environment.MOST_S)[0] for pod in pods]
    finally:
        for pod in pods:
            pod.kill()
    assert [pod.returncode for pod in pods] == [0] * count, printed
    for index, text in enumerate(printed):
        assert f"process {index} of {count}\n" in text
        assert "without a token" not in text
    found = json.loads((tmp_path / "losses.json").read_text(encoding="utf-8"))
    assert np.allclose(found, training.alone(), rtol=2e-6, atol=0)
