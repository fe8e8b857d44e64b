"""Tasks for the worker of the Python package: `python3 -m locksley package_echo:app --url …`. The first returns its payload as it is, the
second its argument, through JSON."""

import locksley

app = locksley.App(handler="json")


@app.task(handler="echo", raw=True)
def echo(payload):
    return payload


@app.task
def identity(value):
    return value
