"""`rlver-gym cache`: look at the recorded answers, forget some, or take them elsewhere."""

from collections import Counter
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from rlver_gym.cli.options import AsJson, print_json
from rlver_gym.llm_client.response_cache import ResponseCache, Row
from rlver_gym.util.atomic import write_atomically
from rlver_gym.util.errors import CacheError
from rlver_gym.util.json_text import dump_json, parse_json
from rlver_gym.util.terminal import SafeConsole, format_count, print_text

app = typer.Typer(
    help="Recorded answers of chat servers: count, prune and export them.", no_args_is_help=True
)
File = Annotated[Path, typer.Argument(help="A response cache, as made with --response-cache.")]


@app.command()
def stats(response_cache: File, as_json: AsJson = False) -> None:
    """What is in a response cache: requests, models, tokens, failures.

    Exit code 1 when answers were changed since they were recorded.
    """
    counts = _count_cache_contents(response_cache)
    if as_json:
        print_json({"response_cache": response_cache, **counts})
    else:
        for name, value in counts.items():
            SafeConsole().print_line(f"{name:18}{_format_value(value)}")
    if counts["damaged"]:
        SafeConsole(stderr=True).print_line(
            f"{format_count(counts['damaged'], 'changed answer')}: `rlver-gym cache prune"
            " --damaged` forgets what was changed.",
            style="red",
        )
        raise typer.Exit(1)


@app.command()
def prune(
    response_cache: File,
    model: Annotated[str | None, typer.Option(help="Only requests to this model.")] = None,
    older_than: Annotated[
        float | None, typer.Option(min=0, help="Only what was recorded more than so many days ago.")
    ] = None,
    failures: Annotated[
        bool,
        typer.Option("--failures", help="Only requests that failed, so that they are asked again."),
    ] = False,
    damaged: Annotated[
        bool,
        typer.Option("--damaged", help="Only answers that were changed since they were recorded."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be forgotten, and do nothing.")
    ] = False,
) -> None:
    """Forget the requests to which all of the given options apply.

    A run that used them cannot be replayed or verified any more.
    """
    if model is None and older_than is None and not failures and not damaged:
        raise typer.BadParameter(
            "say which requests to forget: --model, --older-than, --failures or --damaged."
        )
    before = (
        None if older_than is None else (datetime.now(UTC) - timedelta(days=older_than)).isoformat()
    )

    def is_selected(row: Row) -> bool:
        return (
            (model is None or row.model == model)
            and (before is None or row.created < before)
            and (row.answer is None or not failures)
            and not (damaged and row.is_intact)
        )

    with _open_cache(response_cache, read_only=dry_run) as opened:
        keys = [row.key for row in opened.rows() if is_selected(row)]
        if not dry_run:
            opened.delete(keys)
    requests = format_count(len(keys), "request")
    would = "would be " if dry_run else ""
    SafeConsole().print_line(f"{response_cache}: {requests} {would}forgotten")


@app.command()
def export(
    response_cache: File,
    out: Annotated[
        Path | None, typer.Option(help="A file to write. Default: standard output.")
    ] = None,
) -> None:
    """Every request and its answer as JSON, one a line, oldest first."""
    with _open_cache(response_cache) as opened:
        lines = (dump_json(_row_to_json(row)) for row in opened.rows())
        if out:
            write_atomically(out, (f"{line}\n" for line in lines), CacheError)
        else:
            for line in lines:
                print_text(line, is_json=True)


def _open_cache(response_cache: Path, *, read_only: bool = True) -> closing[ResponseCache]:
    return closing(ResponseCache(response_cache, must_exist=True, read_only=read_only))


def _count_cache_contents(response_cache: Path) -> dict[str, Any]:
    models, servers = Counter[str](), Counter[str]()
    requests = failures = damaged = prompt = completion = 0
    with _open_cache(response_cache) as opened:
        for row in opened.rows():
            requests += 1
            failures += row.answer is None
            damaged += not row.is_intact
            prompt, completion = prompt + row.prompt_tokens, completion + row.completion_tokens
            models[row.model] += 1
            servers[row.server] += 1
    return {
        "requests": requests,
        "failures": failures,
        "damaged": damaged,
        "models": dict(models.most_common()),
        "servers": dict(servers.most_common()),
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "bytes": response_cache.stat().st_size,
    }


def _format_value(value: Any) -> str:
    return (
        ", ".join(f"{name or '?'} ({count:,})" for name, count in value.items())
        if isinstance(value, dict)
        else f"{value:,}"
    )


def _row_to_json(row: Row) -> dict[str, Any]:
    try:
        request = parse_json(row.request)
    except ValueError as error:
        raise CacheError(
            f"request {row.key[:12]} in the response cache is no JSON. Run: rlver-gym cache prune"
            " --damaged"
        ) from error
    return row._asdict() | {"request": request}
