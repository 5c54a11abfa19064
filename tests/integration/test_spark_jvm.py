"""Spark's JVM and its Python workers as a session starts them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fraud_rules.configuration.project import Project
from fraud_rules.errors import MemoryExhausted
from fraud_rules.runtime.caches.class_archive import sharing_options
from fraud_rules.spark.session import class_archive

pytestmark = pytest.mark.integration

SCRIPT = """
import json, sys
from pathlib import Path
import pyarrow as pa
from fraud_rules.errors import FraudError
from fraud_rules.spark.shutdown import detector_error
from fraud_rules.spark.session import SparkOptions, build_session
from fraud_rules.stream.driver.executors import ReadyExecutors

def places(batches):
    import pyspark, py4j
    for _ in batches:
        yield pa.RecordBatch.from_pydict({"place": [pyspark.__file__, pyspark.__cached__, py4j.__file__]})

spark = build_session(SparkOptions(driver_memory="512m"))
ReadyExecutors(spark, "").join()
found = spark.range(1).mapInArrow(places, "place string").toArrow().column(0).to_pylist()
management = spark._jvm.java.lang.management.ManagementFactory
collectors = {each.getName(): each.getCollectionCount() for each in management.getGarbageCollectorMXBeans()}
maps = Path("/proc", str(spark._jvm.ProcessHandle.current().pid()), "maps").read_text()
facts = {"archive": "spark.jsa" in maps, "places": found}
facts |= {"full": collectors["MarkSweepCompact"], "young": collectors["Copy"]}
spread = spark.createDataFrame([(number,) for number in range(8)], "key_group int").repartitionById(3, "key_group")
facts["partitions"] = dict(map(tuple, spread.selectExpr("key_group", "spark_partition_id()").collect()))
spark.sparkContext.pythonExec = "/bin/true"  # as on a host without this package: its first words are no port number
try:
    ReadyExecutors(spark, "").join()
except FraudError as error:
    facts["unready"] = f"{type(error).__name__}: {error}"
try:
    spark._jvm.java.nio.ByteBuffer.allocate(2**31 - 64)
except Exception as error:
    ended = detector_error(error)
    facts |= {"error": type(ended).__name__, "message": str(ended)}
print(json.dumps(facts))
"""


@pytest.fixture(scope="module")
def facts(project: Project) -> dict[str, Any]:
    """The facts that a session reports about itself, and about its end without memory."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def test_a_local_spark_maps_its_class_archive(facts: dict[str, Any], project: Project) -> None:
    if not sharing_options(class_archive(project)):
        pytest.skip("bin/bootstrap could not record the class archive")
    assert facts["archive"]


def test_loading_classes_causes_no_full_collection(facts: dict[str, Any]) -> None:
    assert facts["full"] == 0, facts


def test_rows_go_to_tasks_by_their_number(facts: dict[str, Any]) -> None:
    """A rebuild sends the key groups to its tasks in turn."""
    assert facts["partitions"] == {str(group): group % 3 for group in range(8)}


def test_a_jvm_without_memory_ends_and_the_error_has_a_name(facts: dict[str, Any]) -> None:
    assert (facts["error"], "--driver-memory" in facts["message"]) == (MemoryExhausted.__name__, True)


def test_workers_import_pyspark_with_its_bytecode(facts: dict[str, Any]) -> None:
    module, cached, py4j = map(Path, facts["places"])
    assert module.is_file(), "a file, and none within a zip file"
    assert cached.is_file()
    assert py4j.is_file()


def test_workers_that_cannot_start_are_named(facts: dict[str, Any]) -> None:
    assert facts["unready"].startswith("DetectorFailed: Spark's Python workers do not start: ")
    assert "Each worker host needs this package, and Python" in facts["unready"]
