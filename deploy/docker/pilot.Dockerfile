# The control plane: one static binary on a distroless image.
#
#   make release
#   docker build -f deploy/docker/pilot.Dockerfile --build-arg BASE=<a distroless static image> -t <hub>/pilot:<tag> bin
#
# BASE has roots (/etc/ssl/certs) and nothing else: the control plane asks issuers of tokens by https.
ARG BASE
FROM ${BASE}
COPY --chmod=0755 pilot-discovery /usr/local/bin/pilot-discovery
WORKDIR /
USER 1337:1337
ENTRYPOINT ["/usr/local/bin/pilot-discovery"]
