# The control plane: one static binary on a distroless image.
#
#   make programs
#   docker build -f deploy/docker/pilot.Dockerfile --build-arg BASE=<a distroless static image> -t <hub>/pilot:<tag> dist/bin/linux-amd64
#
# BASE has roots (/etc/ssl/certs) and nothing else: the control plane asks issuers of tokens by https.
ARG BASE
FROM ${BASE}
COPY --chmod=0755 pilot-discovery /usr/local/bin/pilot-discovery
WORKDIR /
USER 1337:1337
ENTRYPOINT ["/usr/local/bin/pilot-discovery"]
