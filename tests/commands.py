"""The command line in this process, where one of its own is not the point: it takes a second."""

import contextlib
import importlib
import logging
import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile
from unittest.mock import patch

import pytest
from typer.testing import CliRunner

from rlver_gym import RlverError, cli
from rlver_gym.llm_client import connect as shared


def run_command(*words, cwd=None, env=None, input="", encoding="utf-8"):
    """What `subprocess.run` gives for `python -m rlver_gym WORDS`, the standard streams captured,
    in this encoding. `input`: None for a standard input that is closed.

    Nothing that this process knows of servers, modules in `cwd` and cards that are not shipped is
    known to the command, and what it changed is as before. An error that would end it with a
    traceback is raised here. A warning is an error, as in all tests.
    """
    with (
        _standard_streams(input, encoding) as (stdout, stderr),
        contextlib.chdir(cwd or Path.cwd()),
        patch.dict(os.environ, env or {}, clear=env is not None),
        patch.object(sys, "argv", ["rlver-gym", *words]),
        patch.object(sys, "path", [os.getcwd(), *sys.path]),
        # Where pytest listens; without any, warnings go to standard error.
        patch.object(logging.root, "handlers", []),
    ):
        _forget(cwd)
        try:
            with pytest.raises(SystemExit) as end:
                cli.main()
        finally:
            _forget(cwd)
        code = end.value.code or 0
        assert isinstance(code, int)
        return subprocess.CompletedProcess(
            ["rlver-gym", *words], code, _text(stdout), _text(stderr)
        )


def _forget(folder):
    """What a new process would have to read, or open: modules in the folder, servers."""
    shared.close()
    importlib.invalidate_caches()
    if folder:
        # As text: as paths, thousands of modules would take longer than most commands.
        inside = str(folder.absolute()) + os.sep
        for name, module in list(sys.modules.items()):
            if (getattr(module, "__file__", None) or "").startswith(inside):
                del sys.modules[name]


@contextlib.contextmanager
def _standard_streams(input, encoding):
    """Files in place of the standard streams, for their descriptors too; gives the latter two."""
    sys.stdout.flush()
    sys.stderr.flush()
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(TemporaryFile("w+", encoding=encoding)) for _ in range(3)]
        files[0].write(input or "")
        files[0].seek(0)
        for number, name, file in zip(range(3), ("stdin", "stdout", "stderr"), files, strict=True):
            stack.callback(os.close, before := os.dup(number))
            stack.callback(os.dup2, before, number)
            os.dup2(file.fileno(), number)
            stream = stack.enter_context(
                open(number, "w" if number else "r", encoding=encoding, closefd=False)
            )
            stack.enter_context(patch.object(sys, name, stream))
        if input is None:
            stack.enter_context(patch.object(sys, "stdin", None))
            os.close(0)
        yield files[1], files[2]


def _text(file):
    sys.stdout.flush()
    sys.stderr.flush()
    file.seek(0)
    return file.read()


def invoke(*words, width=200, **options):
    """A command's result as Click's tests give it; an error of the package is its exception."""
    env = {"COLUMNS": str(width)}
    result = CliRunner().invoke(cli.app, [*map(str, words)], env=env, **options)
    if result.exception and not isinstance(result.exception, SystemExit | RlverError):
        raise result.exception
    return result


def invoke_well(*words, **options):
    result = invoke(*words, **options)
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


def run_processes(number, words, *more):
    """`rlver-gym` with these words in so many processes, as torchrun starts them."""
    torchrun = f"-m torch.distributed.run --standalone --nproc-per-node={number}".split()
    start = [sys.executable, *(torchrun if number > 1 else []), "-m", "rlver_gym"]
    command = [*start, *words.split(), *map(str, more)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
