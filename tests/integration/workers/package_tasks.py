"""Tasks for tests of the Python package: `app` for a local worker, `far` for a remote one."""

import asyncio
import contextlib
import multiprocessing
import os
import pathlib
import subprocess
import time

import locksley

app = locksley.App()
far = locksley.App(handler="far")


@app.task
@far.task
def identity(value):
    return value


@app.task(retries=2)
def fails(text):
    raise ValueError(text)


@app.task
def dies():
    os._exit(3)


@app.task
def about():
    job = locksley.current_job()
    return [job.batch, job.index, job.handler]


@app.task
def sleeps(path, seconds):
    try:
        pathlib.Path(path + "-began").touch()
        time.sleep(seconds)
    finally:
        pathlib.Path(path).touch()


@app.task
def sleeps_unless_stopped(path, seconds):
    with contextlib.suppress(locksley.Stopped):
        sleeps.function(path, seconds)
    return "stopped"


@app.task
async def sleeps_as_a_coroutine(path, seconds):
    try:
        pathlib.Path(path + "-began").touch()
        await asyncio.sleep(seconds)
    finally:
        pathlib.Path(path).touch()


@app.task
def is_stopped_once(path, program):
    """Without an end, by itself or in a program that it has started; but if it runs once more, it ends at once."""
    began = pathlib.Path(path)
    if not began.exists():
        began.touch()
        subprocess.run(["sleep", "3600"], check=True) if program else time.sleep(3600)
    return "again"


@app.task
async def coroutine(value):
    await asyncio.sleep(0)
    return value


@app.task(timeout=10)
def forks():
    """Both processes return."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return "parent" if child else "child"


@app.task(timeout=10)
def ends_a_process():
    """One that goes on after each exception, as a worker of a multiprocessing.Pool does."""
    context = multiprocessing.get_context("fork")
    begun = context.Event()

    def goes_on():
        while True:
            with contextlib.suppress(Exception):
                begun.set()
                time.sleep(60)

    process = context.Process(target=goes_on)
    process.start()
    begun.wait()
    process.terminate()
    process.join()
    return process.exitcode


@app.task
def leaves():
    raise SystemExit("left")


@app.task(handler="raw", raw=True)
def shout(payload):
    return payload.upper()


@far.task
async def nap(seconds):
    await asyncio.sleep(seconds)
    return locksley.current_job().index


@far.task
async def leaves_a_thread(path, seconds):
    """Which is not over when the job is."""
    asyncio.get_running_loop().run_in_executor(None, sleeps.function, path, seconds)
    while not pathlib.Path(path + "-began").exists():
        await asyncio.sleep(0.01)


@far.task
async def gathers(folder, count):
    """Ends when so many of them run side by side."""
    index, path = locksley.current_job().index, pathlib.Path(folder)
    (path / f"here-{index}").touch()
    while len(list(path.iterdir())) < count:
        await asyncio.sleep(0.02)
    return index


@app.task(retries=1)
@far.task(retries=1)
def notes(folder):
    """Fails first, and leaves a note; then says what it was told."""
    job = locksley.current_job()
    if job.attempt == 1:
        job.progress(40)
        job.save_note("half of it")
        time.sleep(0.05)
        raise RuntimeError("the first attempt")
    return [job.attempt, job.note]


@app.task(retries=1)
@far.task(retries=1)
def says_too_much():
    """As `notes`, with progress that is none, and a note that is cut within a character."""
    job = locksley.current_job()
    for percent in (1e9, -1, 33.3):
        job.progress(percent)
    job.save_note("x" + "é" * 3000)
    time.sleep(0.05)
    if job.attempt == 1:
        raise RuntimeError("the first attempt")
    return job.note


@app.task
@far.task
def told():
    job = locksley.current_job()
    print("as it was told")
    return [job.attempt, job.trace, job.timeout_s, os.getpid()]


@app.task
@far.task
def holds(folder):
    """Writes a file when it starts, and goes on until another one is there, or it is told to stop."""
    job, path = locksley.current_job(), pathlib.Path(folder)
    (path / f"began-{job.index}-{job.attempt}").touch()
    while not (path / "go").exists():
        job.raise_if_stopped()
        time.sleep(0.005)
    return job.index


@far.task
def holds_from(index, folder):
    """As `holds`, from this index on."""
    if locksley.current_job().index >= index:
        return holds.function(folder)


@far.task
def deaf(folder):
    """As `holds`, but does not look whether it should stop."""
    while not (pathlib.Path(folder) / "go").exists():
        time.sleep(0.005)
