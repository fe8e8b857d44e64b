#!/usr/bin/python3
"""Who may include whom. core, proto and config know nothing of each other; daemon joins them, in layers; nothing includes tests,
and only tests and the daemon itself include daemon. A library enters only where it belongs. Nothing is included twice. Folders
form no cycle, and each has a row in the table."""

import itertools
import os
import re

import tree
from tree import Finding, Sample

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)

# Folder of the including file (longest match wins) -> folders of ours that it may include from.
# What a folder of the daemon may know of the other layers.
# Of the ring only two headers of plain values: all the rest of it belongs to lanes.
_CORE = ["core/plugin.h", "core/base", "core/sync", "core/batch", "core/lane", "core/tasks", "core/pool", "core/ring/ring_view.h", "core/ring/state/group_limits.h"]
_OURS = [*_CORE, "proto", "config"]
_GROUND = [*_OURS, "daemon/base", "daemon/metrics"]
_STORE = [*_GROUND, "daemon/store"]
_SERVER = [*_STORE, "daemon/auth", "daemon/tls", "daemon/network", "daemon/connection"]
# In daemon/server each folder knows itself and those before it.
_SERVER_LAYERS = ["payloads", "accounts", "records", "batches", "state", "session", "commands"]


def _folders(last):
    return [f"daemon/server/{name}" for name in _SERVER_LAYERS[:_SERVER_LAYERS.index(last) + 1]]


def _batches(names):
    return [*_STORE, *_folders("records"), *(f"daemon/server/batches/{name}" for name in names.split())]


def _rooms(names):
    return [f"core/{name}" for name in names.split()]


_BASE_TOP = [f"daemon/base/{name}.h" for name in (
    "time", "hash128", "handler_kind", "exit_codes", "decimal_numbers", "freed_memory", "standard_descriptors")]


def _base(names):
    return [*_OURS, *_BASE_TOP, *(f"daemon/base/{name}" for name in names.split())]


def _rooms_of(folder, names):
    return [f"{folder}/{name}" for name in names.split()]


def _store(names):
    return [*_GROUND, *(f"daemon/store/{name}" for name in names.split())]


ARROWS = {
    # Only the headers of plugins, which know nothing of the rest.
    "core": ["core/plugin.h"],
    "core/base": _rooms("base"),
    "core/sync": _rooms("base sync"),
    "core/steal": _rooms("base sync steal"),
    "core/fair": _rooms("base sync fair"),
    "core/ring/state": _rooms("base sync fair ring/state"),
    "core/ring/parts": _rooms("base sync fair ring/state ring/parts"),
    "core/ring": _rooms("base sync fair ring"),
    "core/batch": _rooms("base sync ring/state batch"),
    "core/lane": _rooms("base sync ring batch lane"),
    "core/tasks": _rooms("base sync steal batch lane tasks"),
    "core/pool": _rooms("base sync steal ring batch lane tasks pool"),
    "proto": ["proto"],
    "proto/clients/cpp": ["proto"],
    "config": ["config"],
    "daemon": [*_OURS, "daemon"],
    "daemon/base": [*_OURS, *_BASE_TOP],
    "daemon/base/log": _base("log"),
    "daemon/base/loop": _base("loop"),
    "daemon/base/net": _base("log loop net"),
    "daemon/base/plugin": _base("plugin"),
    "daemon/base/machine": _base("log machine"),
    "daemon/metrics": _GROUND,
    "daemon/auth": [*_GROUND, "daemon/auth"],
    "daemon/handlers": [*_GROUND, "daemon/handlers"],
    "daemon/process": [*_GROUND, "daemon/process"],
    "daemon/process/io": [*_GROUND, *_rooms_of("daemon/process", "io")],
    # The keeper knows nothing of lanes and slots, and lanes know runners by their interface only.
    "daemon/process/keeper": [*_GROUND, *_rooms_of("daemon/process", "io keeper")],
    "daemon/process/lane": [*_GROUND, *_rooms_of("daemon/process", "io keeper lane")],
    "daemon/process/runners": [*_GROUND, *_rooms_of("daemon/process", "io keeper lane runners")],
    "daemon/store": _STORE,
    "daemon/store/engine": _store("engine"),
    "daemon/store/rows": _store("engine rows"),
    "daemon/store/write": _store("engine rows write"),
    "daemon/store/read": _store("engine rows read"),
    "daemon/store/embedded": [*_STORE, "daemon/store/embedded"],
    "daemon/store/postgres": [*_STORE, "daemon/store/postgres"],
    "daemon/store/migration": [*_STORE],
    "daemon/tls": [*_GROUND, "daemon/tls"],
    # The bytes of connections.
    "daemon/network": [*_GROUND, "daemon/tls", "daemon/network"],
    # What connections of both RESP ports have in common.
    "daemon/connection": [*_GROUND, "daemon/tls", "daemon/network", "daemon/connection"],
    "daemon/upstream": [*_GROUND, "daemon/upstream"],
    # The protocol, without I/O: it knows neither the runner nor the connection.
    "daemon/upstream/link": [*_OURS, "daemon/upstream/replies", "daemon/upstream/link"],
    "daemon/upstream/replies": [*_OURS, "daemon/upstream/replies"],
    # The link to remote workers: it knows nothing of the server that has the batches.
    "daemon/workers": [*_OURS, "daemon/base", "daemon/metrics", "daemon/workers"],
    "daemon/workers/interface": [*_OURS, *_rooms_of("daemon/workers", "interface")],
    "daemon/workers/state": [*_OURS, *_rooms_of("daemon/workers", "interface state")],
    "daemon/workers/desks": [*_OURS, *_rooms_of("daemon/workers", "interface state desks")],
    "daemon/worker_port": [*_SERVER, "daemon/workers", "daemon/server/accounts", "daemon/server/records", "daemon/server/batches",
                           "daemon/server/state", "daemon/worker_port"],
    "daemon/server": [*_SERVER, "daemon/server"],
    "daemon/server/payloads": [*_STORE, *_folders("payloads")],
    "daemon/server/accounts": [*_GROUND, "daemon/server/accounts"],
    "daemon/server/records": [*_STORE, *_folders("records")],
    # The façade of its rooms; none of them knows it.
    "daemon/server/batches": [*_STORE, *_folders("batches")],
    "daemon/server/batches/handlers": _batches("handlers"),
    "daemon/server/batches/events": _batches("events"),
    "daemon/server/batches/retention": _batches("retention"),
    "daemon/server/batches/stored": _batches("handlers events retention stored"),
    "daemon/server/batches/changes": _batches("retention stored changes"),
    "daemon/server/batches/news": _batches("events retention changes news"),
    "daemon/server/batches/intake": _batches("handlers events retention stored changes news intake"),
    "daemon/server/state": [*_SERVER, "daemon/workers", *_folders("state")],
    "daemon/server/session": [*_SERVER, *_folders("session")],
    # Two rooms that do not know the session; the third has parts that use it.
    "daemon/server/session/output": [*_SERVER, *_folders("state"), "daemon/server/session/output"],
    "daemon/server/session/writes": [*_SERVER, *_folders("state"), "daemon/server/session/command_executor.h", "daemon/server/session/output",
                                     "daemon/server/session/writes"],
    "daemon/server/session/subscriptions": [*_SERVER, *_folders("session")],
    "daemon/server/commands": [*_SERVER, "daemon/workers", *_folders("commands")],
    "daemon/http": [*_GROUND, "daemon/auth", "daemon/tls", "daemon/http"],
    "daemon/http/pages": [*_STORE, "daemon/auth", "daemon/tls", "daemon/http"],
    "daemon/http/api": [*_STORE, "daemon/auth", "daemon/workers", "daemon/http", "daemon/server/accounts", "daemon/server/records",
                        "daemon/server/batches", "daemon/server/state"],
    "daemon/standby": [*_SERVER, "proto/clients/cpp", "daemon/workers", "daemon/worker_port", "daemon/server", "daemon/http", "daemon/standby"],
    # The commands; none of their folders knows the files of this one.
    "daemon/cli": [*_GROUND, "daemon/auth", "daemon/cli"],
    "daemon/cli/text": [*_GROUND, *_rooms_of("daemon/cli", "text")],
    "daemon/cli/context": [*_GROUND, *_rooms_of("daemon/cli", "text context")],
    "daemon/cli/names": [*_GROUND, *_rooms_of("daemon/cli", "text context names")],
    "daemon/cli/feed": [*_GROUND, *_rooms_of("daemon/cli", "text context names feed")],
    "daemon/cli/job": [*_GROUND, *_rooms_of("daemon/cli", "text context names job")],
    "daemon/cli/exec": [*_GROUND, *_rooms_of("daemon/cli", "text context names feed exec")],
    "daemon/cli/bench": [*_GROUND, *_rooms_of("daemon/cli", "text context bench")],
    "daemon/cli/top": [*_GROUND, *_rooms_of("daemon/cli", "text context top")],
    "tests": ["core", "proto", "config", "daemon", "tests"],
    "deploy/examples": ["core", "proto/clients/cpp"],
}
# The codec serves both ends of a connection, so it must not know the client library.
FORBIDDEN = {
    "proto": ["proto/clients/cpp"],
    "proto/clients/cpp": [],
    # The store knows no engine, and engines do not know each other.
    "daemon/store": ["daemon/store/embedded", "daemon/store/postgres"],
    "daemon/store/embedded": ["daemon/store/postgres"],
    "daemon/store/postgres": ["daemon/store/embedded"],
}

# Pattern of an included file -> where it may be included.
LIBRARIES = [
    (r"asio(/|\.hpp)", ["daemon", "proto/clients/cpp", "tests"]),
    (r"yaml-cpp/", ["config/load.cc"]),
    (r"(spdlog|CLI|systemd|restinio|nlohmann)/", ["daemon", "tests"]),
    (r"prometheus/", ["daemon", "tests"]),
    (r"openssl/", ["daemon", "proto/clients/cpp", "tests"]),
    (r"sodium\.h$", ["daemon/auth", "tests"]),
    (r"rocksdb/", ["daemon/store/embedded", "tests"]),
    (r"libpq-fe\.h$", ["daemon/store/postgres", "tests"]),
    (r"fmt/", ["config", "proto", "daemon", "tests"]),
    (r"(gtest|gmock|benchmark|hiredis|tbb|oneapi)/", ["tests"]),
    # core does no I/O: no sockets, no streams.
    (r"(sys/socket\.h|sys/epoll\.h|netinet/.*|arpa/inet\.h|netdb\.h|iostream|fstream)$",
     ["proto", "config", "daemon", "tests", "deploy"]),
]

# A header -> headers that it may not reach, directly or not: the headers that native handlers include do not bring the pool with them. Headers for
# sub-jobs need a worker's deque, but nothing else of the worker.
_WORKERS = ["core/pool/worker.h", "core/pool/pool.h", "core/ring/fair_ring.h", "core/lane/lane.h", "core/batch/batch.h"]
_POOL = [*_WORKERS, "core/steal/deque.h"]
CLOSED = {"core/tasks/context.h": _POOL, "core/batch/handler.h": _POOL, "core/tasks/task_group.h": _WORKERS, "core/tasks/parallel_for.h": _WORKERS}


def inside(path, folder):
    return path == folder or path.startswith(folder + "/")


def deepest(path, table):
    matches = [folder for folder in table if inside(path, folder)]
    return max(matches, key=len) if matches else None


def reached(files, path, seen):
    """All headers of ours that `path` includes, directly or not."""
    for match in INCLUDE.finditer(files.get(path, "")):
        target = match.group(2)
        if match.group(1) == '"' and target not in seen:
            seen.add(target)
            reached(files, target, seen)
    return seen


# Folders that know each other, each with the reason.
KNOTS = {
    # A subscription's messages and moves are parts of a session, which use it by its public functions, as its commands do.
    ("daemon/server/session/subscriptions", "daemon/server/session"),
    # `writes` decides by what a command writes, as the interface to the commands says; that interface names the session.
    ("daemon/server/session/writes", "daemon/server/session"),
}


SOURCES = ("core/", "daemon/", "proto/", "config/")


def known(files):
    """Folder -> folders that its files include, each with one such file and its line."""
    graph = {}
    for path, text in files.items():
        if not tree.is_cpp(path) or not path.startswith(SOURCES):
            continue
        here = os.path.dirname(path)
        for match in INCLUDE.finditer(text):
            there = os.path.dirname(match.group(2))
            if match.group(1) == '"' and there != here:
                graph.setdefault(here, {}).setdefault(there, (path, text.count("\n", 0, match.start(1)) + 1))
    return graph


def without_knots(graph):
    return {here: {there: where for there, where in others.items() if (here, there) not in KNOTS} for here, others in graph.items()}


def stale_knots(files, graph):
    """Exceptions that no include needs any more."""
    for here, there in sorted(KNOTS):
        first = min((path for path in files if os.path.dirname(path) == here), default=None)
        if first and there not in graph.get(here, {}):
            yield Finding(first, 1, f"{here} includes nothing from {there}: take it out of KNOTS in tests/lint/includes.py")


def path_between(graph, start, end):
    """The folders on a way from one to the other, both included, or None."""
    ways, seen = [[start]], {start}
    while ways:
        way = ways.pop(0)
        for there in sorted(graph.get(way[-1], {})):
            if there == end:
                return [*way, end]
            if there not in seen:
                seen.add(there)
                ways.append([*way, there])
    return None


def cycles(files):
    """One finding for each include that leads from a folder through other folders back to it."""
    everything = known(files)
    yield from stale_knots(files, everything)
    graph = without_knots(everything)
    for here in sorted(graph):
        for there, (path, line) in sorted(graph[here].items()):
            back = path_between(graph, there, here)
            if back and here == min(back):  # each cycle once
                others = ", ".join(graph[a][b][0] for a, b in itertools.pairwise(back))
                yield Finding(path, line, f"a cycle of folders: {' -> '.join([here, *back])}, by this file and {others}")


def without_row(files):
    """Folders of ours that the table does not name: they may then include what the folder above may include."""
    for folder in sorted({os.path.dirname(path) for path in files if tree.is_cpp(path) and path.startswith(SOURCES)}):
        if folder not in ARROWS:
            first = min(path for path in files if os.path.dirname(path) == folder)
            yield Finding(first, 1, f"{folder} has no row in the table of tests/lint/includes.py")


def check(files):
    findings = [*cycles(files), *without_row(files)]
    for path, banned in CLOSED.items():
        for target in sorted(reached(files, path, set()) & set(banned)):
            findings.append(Finding(path, 1, f"reaches {target}, which is none of its users' business"))
    for path, text in files.items():
        if not tree.is_cpp(path):
            continue
        here = deepest(path, ARROWS)
        seen = set()
        for match in INCLUDE.finditer(text):
            line = text.count("\n", 0, match.start(1)) + 1
            quoted, target = match.group(1) == '"', match.group(2)

            def report(reason):
                findings.append(Finding(path, line, f"{match.group(0).strip()}: {reason}"))

            if target in seen:
                report("is included twice")
            seen.add(target)
            if quoted:
                if not deepest(target, ARROWS) and (target.endswith(".hpp") or any(re.match(p, target) for p, _ in LIBRARIES)):
                    report("a library's header is included with <>")
                    continue
                if ".." in target.split("/") or "/" not in target:
                    report("an include is written from the root, such as \"core/steal/deque.h\"")
                    continue
                allowed = ARROWS.get(here, [])
                if not any(inside(target, folder) for folder in allowed):
                    report(f"{here or 'this folder'} may include from {', '.join(allowed) or 'nowhere'} only")
                banned = FORBIDDEN.get(deepest(path, FORBIDDEN), [])
                if any(inside(target, folder) for folder in banned):
                    report(f"{here} must not know {', '.join(banned)}")
            else:
                for pattern, places in LIBRARIES:
                    if re.match(pattern, target) and not any(inside(path, place) for place in places):
                        report(f"belongs in {', '.join(places)} only")
                if deepest(target, ARROWS) and (tree.ROOT / target).exists():
                    report("our own headers are included with quotes")
    return findings


SAMPLES = [
    Sample("a room on one below it", {"core/pool/pool.cc": '#include "core/pool/pool.h"\n#include <atomic>\n'}, None),
    Sample("daemon joins", {"daemon/main.cc": '#include "config/load.h"\n#include "core/pool/pool.h"\n#include <asio.hpp>\n'}, None),
    Sample("a level on the ring", {"core/fair/fair_level.h": '#include "core/ring/state/ring_gate.h"\n'}, "core/fair may include from core/base"),
    Sample("a ring's state on the ring", {"core/ring/state/ring_queue.h": '#include "core/ring/fair_ring.h"\n'}, "core/ring/state may include from"),
    Sample("the ring on its state", {"core/ring/fair_ring.h": '#include "core/ring/state/ring_gate.h"\n#include "core/fair/fair_level.h"\n'}, None),
    Sample("a room on one above it", {"core/ring/fair_ring.cc": '#include "core/pool/pool.h"\n'}, "core/ring may include from core/base"),
    Sample("plugins on a room", {"core/plugin.h": '#include "core/base/job.h"\n'}, "core may include from core/plugin.h"),
    Sample("core on proto", {"core/pool/pool.h": '#include "proto/reader.h"\n'}, "core/pool may include from core/base"),
    Sample("proto on config", {"proto/limits.h": '#include "config/config.h"\n'}, "proto may include from proto"),
    Sample("config on core", {"config/config.h": '#include "core/batch/batch.h"\n'}, "config may include from config"),
    Sample("core on daemon", {"core/pool/pool.cc": '#include "daemon/server/server.h"\n'}, "core/pool may include from core/base"),
    Sample("a neighbour", {"daemon/store/store.cc": '#include "daemon/tls/context.h"\n'}, "daemon/store may include from"),
    Sample("upwards in the daemon", {"daemon/base/log/log_line.cc": '#include "daemon/server/server.h"\n'}, "daemon/base/log may include from"),
    Sample("upwards in the server", {"daemon/server/session/session.cc": '#include "daemon/server/commands/dispatch.h"\n'},
           "daemon/server/session may include from"),
    Sample("the server's root", {"daemon/server/commands/info.cc": '#include "daemon/server/server.h"\n'},
           "daemon/server/commands may include from"),
    Sample("a room of batches on one below it", {"daemon/server/batches/intake/intake.h": '#include "daemon/server/batches/stored/stored_batches.h"\n'}, None),
    Sample("a room of batches on one above it", {"daemon/server/batches/stored/stored_batches.h": '#include "daemon/server/batches/news/batch_news.h"\n'},
           "daemon/server/batches/stored may include from"),
    Sample("a room of batches on the façade", {"daemon/server/batches/intake/intake.cc": '#include "daemon/server/batches/batches.h"\n'},
           "daemon/server/batches/intake may include from"),
    Sample("a room of sessions on the session", {"daemon/server/session/output/session_output.cc": '#include "daemon/server/session/session.h"\n'},
           "daemon/server/session/output may include from"),
    Sample("API on sessions", {"daemon/http/api/api.cc": '#include "daemon/server/session/session.h"\n'},
           "daemon/http/api may include from"),
    Sample("the ring's values", {"daemon/metrics/tenant_labels.h": '#include "core/ring/ring_view.h"\n'}, None),
    Sample("the ring outside core", {"daemon/startup.h": '#include "core/ring/fair_ring.h"\n'}, "daemon may include from core/plugin.h"),
    Sample("down in the server", {"daemon/server/session/session.cc": '#include "daemon/server/state/server_state.h"\n'}, None),
    Sample("the ground", {"daemon/tls/context.cc": '#include "daemon/base/log/log_line.h"\n'}, None),
    Sample("daemon on tests", {"daemon/main.cc": '#include "tests/support/clock.h"\n'}, "daemon may include from"),
    Sample("codec on client", {"proto/reader.cc": '#include "proto/clients/cpp/client.h"\n'}, "must not know proto/clients/cpp"),
    Sample("API on the server", {"daemon/http/api/api.cc": '#include "daemon/server/state/server_state.h"\n'}, None),
    Sample("workers on the server", {"daemon/workers/worker_link.cc": '#include "daemon/server/state/server_state.h"\n'},
           "daemon/workers may include from"),
    Sample("keeper on slots", {"daemon/process/keeper/keeper.cc": '#include "daemon/process/runners/worker_runner.h"\n'}, "daemon/process/keeper may include from"),
    Sample("client on codec", {"proto/clients/cpp/client.cc": '#include "proto/reader.h"\n#include <asio/ip/tcp.hpp>\n'}, None),
    Sample("asio in core", {"core/pool/pool.cc": "#include <asio.hpp>\n"}, "belongs in daemon, proto/clients/cpp"),
    Sample("asio in the codec", {"proto/reader.cc": "#include <asio/buffer.hpp>\n"}, "belongs in daemon"),
    Sample("yaml in its place", {"config/load.cc": "#include <yaml-cpp/yaml.h>\n"}, None),
    Sample("yaml elsewhere", {"config/validate.cc": "#include <yaml-cpp/yaml.h>\n"}, "belongs in config/load.cc"),
    Sample("log in core", {"core/pool/worker.cc": "#include <spdlog/spdlog.h>\n"}, "belongs in daemon"),
    Sample("rocksdb outside the store", {"daemon/main.cc": "#include <rocksdb/db.h>\n"}, "belongs in daemon/store/embedded"),
    Sample("rocksdb above the seam", {"daemon/store/store.cc": "#include <rocksdb/db.h>\n"}, "belongs in daemon/store/embedded"),
    Sample("the store on an engine", {"daemon/store/store.cc": '#include "daemon/store/embedded/embedded_engine.h"\n'}, "daemon/store must not know daemon/store/embedded"),
    Sample("an engine on another", {"daemon/store/postgres/schema.cc": '#include "daemon/store/embedded/rocks_options.h"\n'}, "must not know daemon/store/embedded"),
    Sample("an engine on the seam", {"daemon/store/embedded/rocks_engine.h": '#include "daemon/store/engine/engine.h"\n'}, None),
    Sample("sockets in core", {"core/sync/idle.cc": "#include <sys/socket.h>\n"}, "belongs in"),
    Sample("relative", {"core/pool/pool.cc": '#include "pool.h"\n'}, "written from the root"),
    Sample("library in quotes", {"daemon/asio.cc": '#include "asio/impl/src.hpp"\n'}, "included with <>"),
    Sample("twice", {"core/pool/pool.cc": '#include "core/pool/pool.h"\n#include <atomic>\n#include <atomic>\n'}, "included twice"),
    Sample("a handler's header", {"core/tasks/context.h": '#include "core/base/job.h"\n', "core/base/job.h": "#include <chrono>\n"}, None),
    Sample("the pool in a handler's header", {"core/tasks/context.h": '#include "core/tasks/task.h"\n', "core/tasks/task.h": '#include "core/steal/deque.h"\n'},
           "reaches core/steal/deque.h"),
    Sample("a cycle", {"proto/a/a.h": '#include "proto/b/b.h"\n', "proto/b/b.cc": '#include "proto/c/c.h"\n', "proto/c/c.h": '\n#include "proto/a/a.h"\n'},
           "proto/a/a.h:1: a cycle of folders: proto/a -> proto/b -> proto/c -> proto/a, by this file and proto/b/b.cc, proto/c/c.h"),
    Sample("a folder without a row", {"daemon/cli/extra/a.cc": ""}, "daemon/cli/extra has no row"),
    Sample("a folder of the protocol without a row", {"proto/extra/a.cc": ""}, "proto/extra has no row"),
    Sample("a knot that is needed", {"daemon/server/session/writes/a.cc": '#include "daemon/server/session/command_executor.h"\n'}, None),
    Sample("a knot that is not needed any more", {"daemon/server/session/writes/a.cc": ""}, "daemon/server/session/writes includes nothing from"),
    Sample("upwards", {"core/pool/pool.cc": '#include "../core/pool/pool.h"\n'}, "written from the root"),
]

if __name__ == "__main__":
    tree.main(check, SAMPLES, keep=tree.is_cpp)
