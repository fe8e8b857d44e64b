# syntax=docker/dockerfile:1
# Stages: `build` has the compilers and makes the Debian package; `test` runs all the tests on top of it; the last one, which is the image, is
# Debian with that package.
#   docker build -t locksley .
#   docker build --target test .
#   docker run --rm -p 127.0.0.1:9770:9770 -v locksley:/var/lib/locksley locksley
# deploy/image/README.md says how clients reach it.

FROM debian:bookworm-slim AS build
WORKDIR /src
COPY deploy/install-dependencies deploy/
RUN deploy/install-dependencies
COPY . .
RUN cmake --preset release \
 && cmake --build --preset release --target locksleyd locksley \
 && cpack --config build/release/CPackConfig.cmake -B build/package

FROM build AS test
RUN deploy/test

FROM debian:bookworm-slim
# A fixed number, so that volumes keep their owner. The package finds the user there, and makes none.
RUN groupadd --system --gid 10001 locksley \
 && useradd --system --uid 10001 --gid locksley --home-dir /var/lib/locksley --no-create-home --shell /usr/sbin/nologin locksley
RUN --mount=type=bind,from=build,source=/src/build/package,target=/package \
    apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends /package/locksley_*.deb openssl \
 && rm -rf /var/lib/apt/lists/*
COPY deploy/image/locksley.yaml /etc/locksley/
COPY deploy/image/health /usr/local/bin/locksley-health
RUN locksleyd --version && locksley --version && locksleyd --check-config --config /etc/locksley/locksley.yaml > /dev/null
USER locksley
WORKDIR /var/lib/locksley
# The store: batches, payloads, results.
VOLUME /var/lib/locksley
EXPOSE 7770 9770
# SIGTERM drains: new work is refused, accepted work is finished.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 CMD ["locksley-health"]
ENTRYPOINT ["locksleyd"]
CMD ["--config", "/etc/locksley/locksley.yaml"]
