#!/usr/bin/python3
"""Who may include whom. core, proto and config know nothing of each other; daemon joins them; nothing includes tests,
and only tests and the daemon itself include daemon. A library enters only where it belongs. Nothing is included twice."""

import re

import tree
from tree import Finding, Sample

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)

# Folder of the including file (longest match wins) -> folders of ours that it may include from.
ARROWS = {
    "core": ["core"],
    "proto": ["proto"],
    "config": ["config"],
    "daemon": ["core", "proto", "config", "daemon"],
    "tests": ["core", "proto", "config", "daemon", "tests"],
    "deploy/examples": ["core", "proto/client"],
}
# The codec serves both ends of a connection, so it must not know the client library.
FORBIDDEN = {"proto": ["proto/client"], "proto/client": []}

# Pattern of an included file -> where it may be included.
LIBRARIES = [
    (r"asio(/|\.hpp)", ["daemon", "proto/client", "tests"]),
    (r"yaml-cpp/", ["config/load.cc"]),
    (r"(spdlog|CLI|systemd|restinio|nlohmann)/", ["daemon", "tests"]),
    (r"prometheus/", ["daemon", "tests"]),
    (r"openssl/", ["daemon", "tests"]),
    (r"sodium\.h$", ["daemon/auth", "tests"]),
    (r"rocksdb/", ["daemon/store", "tests"]),
    (r"fmt/", ["config", "proto", "daemon", "tests"]),
    (r"(gtest|gmock|benchmark|hiredis|tbb|oneapi)/", ["tests"]),
    # core does no I/O: no sockets, no streams.
    (r"(sys/socket\.h|sys/epoll\.h|netinet/.*|arpa/inet\.h|netdb\.h|iostream|fstream)$",
     ["proto", "config", "daemon", "tests", "deploy"]),
]


def inside(path, folder):
    return path == folder or path.startswith(folder + "/")


def deepest(path, table):
    matches = [folder for folder in table if inside(path, folder)]
    return max(matches, key=len) if matches else None


def check(files):
    findings = []
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
                    report("an include is written from the root, such as \"core/deque.h\"")
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
    Sample("core on core", {"core/pool.cc": '#include "core/pool.h"\n#include <atomic>\n'}, None),
    Sample("daemon joins", {"daemon/main.cc": '#include "config/load.h"\n#include "core/pool.h"\n#include <asio.hpp>\n'}, None),
    Sample("core on proto", {"core/pool.h": '#include "proto/reader.h"\n'}, "core may include from core"),
    Sample("proto on config", {"proto/limits.h": '#include "config/config.h"\n'}, "proto may include from proto"),
    Sample("config on core", {"config/config.h": '#include "core/batch.h"\n'}, "config may include from config"),
    Sample("core on daemon", {"core/pool.cc": '#include "daemon/server/server.h"\n'}, "core may include from core"),
    Sample("daemon on tests", {"daemon/main.cc": '#include "tests/support/clock.h"\n'}, "daemon may include from"),
    Sample("codec on client", {"proto/reader.cc": '#include "proto/client/client.h"\n'}, "must not know proto/client"),
    Sample("client on codec", {"proto/client/client.cc": '#include "proto/reader.h"\n#include <asio/ip/tcp.hpp>\n'}, None),
    Sample("asio in core", {"core/pool.cc": "#include <asio.hpp>\n"}, "belongs in daemon, proto/client"),
    Sample("asio in the codec", {"proto/reader.cc": "#include <asio/buffer.hpp>\n"}, "belongs in daemon"),
    Sample("yaml in its place", {"config/load.cc": "#include <yaml-cpp/yaml.h>\n"}, None),
    Sample("yaml elsewhere", {"config/validate.cc": "#include <yaml-cpp/yaml.h>\n"}, "belongs in config/load.cc"),
    Sample("log in core", {"core/worker.cc": "#include <spdlog/spdlog.h>\n"}, "belongs in daemon"),
    Sample("rocksdb outside the store", {"daemon/main.cc": "#include <rocksdb/db.h>\n"}, "belongs in daemon/store"),
    Sample("sockets in core", {"core/idle.cc": "#include <sys/socket.h>\n"}, "belongs in"),
    Sample("relative", {"core/pool.cc": '#include "pool.h"\n'}, "written from the root"),
    Sample("library in quotes", {"daemon/asio.cc": '#include "asio/impl/src.hpp"\n'}, "included with <>"),
    Sample("twice", {"core/pool.cc": '#include "core/pool.h"\n#include <atomic>\n#include <atomic>\n'}, "included twice"),
    Sample("upwards", {"core/pool.cc": '#include "../core/pool.h"\n'}, "written from the root"),
]

if __name__ == "__main__":
    tree.main(check, SAMPLES, keep=tree.is_cpp)
