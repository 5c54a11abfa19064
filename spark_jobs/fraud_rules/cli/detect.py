"""`fraud detect`: the detector in the foreground."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fraud_rules.cli.configured import configured
from fraud_rules.cli.options import Kafka


def detect(
    kafka: Kafka,
    checkpoint: Annotated[
        str | None, typer.Option(help="A folder, or a URI of a shared file system.", show_default="var/checkpoint")
    ] = None,
    master: Annotated[str, typer.Option(help="Spark's master.")] = "local[2,4]",
    shuffle_partitions: Annotated[
        int, typer.Option(min=1, help="Parallel tasks of the stateful stage; fixed with a checkpoint.")
    ] = 2,
    driver_memory: Annotated[str, typer.Option(help="Memory of the driver's JVM.")] = "1536m",
    ui_port: Annotated[int | None, typer.Option(help="Serve Spark's UI on this port.", show_default="no UI")] = None,
    jars: Annotated[
        Path | None, typer.Option(help="The folder of the connector's jars.", show_default="lib/connector")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Lift a stop that the rule log asked for.")] = False,
    adopt: Annotated[
        bool, typer.Option("--adopt", help="Begin an empty checkpoint where the outputs written so far end.")
    ] = False,
) -> None:
    """Run the detector until Ctrl-C or SIGTERM.

    They end it after the batch in hand. Started again, it goes on where it ended, however it ended.

    \b
    Examples:
      fraud detect
      fraud detect --bootstrap kafka-1:9092 --master spark://master:7077 --checkpoint hdfs:///fraud/checkpoint
    """
    from fraud_rules.spark.job import DetectorJob
    from fraud_rules.spark.session import SparkOptions
    from fraud_rules.spark.streaming import run

    context = configured()
    options = SparkOptions(
        checkpoint=checkpoint or str(context.project.var / "checkpoint"),
        jars=jars or context.project.jars / "connector",
        master=master,
        shuffle_partitions=shuffle_partitions,
        driver_memory=driver_memory,
        ui_port=ui_port,
    )
    job = DetectorJob(context.settings, context.schema, kafka, options, resume=resume, adopt=adopt)
    run(job, on_ready=lambda: _say(f"the detector runs, checkpoint {options.checkpoint}"))
    _say("the detector has ended in order")


def _say(text: str) -> None:
    sys.stderr.write(f"fraud: {text}\n")
    sys.stderr.flush()
