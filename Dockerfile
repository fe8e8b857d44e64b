# syntax=docker/dockerfile:1
# Two stages: one with the compilers, one with the two programs and the libraries that they link to.
#   docker build -t locksley .
#   docker run --rm -p 127.0.0.1:7770:7770 -p 127.0.0.1:9770:9770 locksley

FROM debian:bookworm-slim AS build
WORKDIR /src
COPY deploy/install-dependencies deploy/
RUN deploy/install-dependencies
COPY . .
RUN cmake --preset release \
 && cmake --build --preset release --target locksleyd locksley \
 && strip build/release/bin/locksleyd build/release/bin/locksley

FROM debian:bookworm-slim
# The run-time halves of the libraries in deploy/install-dependencies; the test in this stage's last RUN fails if one is missing.
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      libfmt9 libprometheus-cpp-core1.0 librocksdb7.8 libsodium23 libspdlog1.10 libssl3 libsystemd0 libxxhash0 libyaml-cpp0.7 \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --system --uid 10001 --home-dir /var/lib/locksley --create-home --shell /usr/sbin/nologin locksley
COPY --from=build /src/build/release/bin/ /usr/local/bin/
# Inside a container loopback would reach nobody: bind to every address of the container, publish what is wanted.
RUN mkdir /etc/locksley \
 && printf '%s\n' 'listen: {address: 0.0.0.0, port: 7770}' 'http:   {address: 0.0.0.0, port: 9770}' > /etc/locksley/locksley.yaml \
 && locksleyd --version && locksley --version && locksleyd --check-config --config /etc/locksley/locksley.yaml > /dev/null
USER locksley
WORKDIR /var/lib/locksley
# ./locksley-data: batches, payloads, results.
VOLUME /var/lib/locksley
EXPOSE 7770 9770
# SIGTERM drains: new work is refused, accepted work is finished.
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --retries=3 CMD ["locksley", "ping"]
ENTRYPOINT ["locksleyd"]
CMD ["--config", "/etc/locksley/locksley.yaml"]
