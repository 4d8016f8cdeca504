"""`veil`: a table from verb to function. Heavy imports happen inside the verbs, so that help is immediate."""

from __future__ import annotations

import sys

import typer

from videoveil.commands import (
    anonymize,
    audit,
    corpus,
    data,
    evaluate,
    export,
    features,
    live,
    models,
    serve,
    tasks,
    train,
    verify,
)
from videoveil.errors import VeilError

app = typer.Typer(
    name="veil",
    help="Keep what happens in a video, hide who it happens to, and prove both.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
data_app = typer.Typer(help="Datasets and their synthetic twins.", no_args_is_help=True)
app.add_typer(data_app, name="data")

data_app.command("list")(data.data_list)
data_app.command("make")(data.data_make)
data_app.command("verify")(data.data_verify)
app.command("models")(models.models)
app.command("convert")(models.convert)
app.command("extract")(features.extract)
app.command("train-task")(tasks.train_task)
app.command("score")(tasks.score)
app.command("predict")(tasks.predict)
app.command("train")(train.train)
app.command("anonymize-features")(features.anonymize_features)
app.command("corpus")(corpus.corpus)
app.command("evaluate")(evaluate.evaluate)
app.command("audit")(audit.audit)
app.command("anonymize")(anonymize.anonymize)
app.command("live")(live.live)
app.command("verify")(verify.verify)
app.command("export")(export.export)
app.command("serve")(serve.serve)
app.command("doctor")(models.doctor)


def main() -> None:
    """Run the command line; errors that are the input's fault are one message and exit code 2."""
    try:
        app()
    except VeilError as error:
        print(f"veil: {type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stderr.close()
        sys.exit(141)


if __name__ == "__main__":
    main()
