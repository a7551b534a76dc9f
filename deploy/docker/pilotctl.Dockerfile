# pilotctl, for Jobs that install and for debugging from inside a cluster.
#
#   make programs
#   docker build -f deploy/docker/pilotctl.Dockerfile --build-arg BASE=<a distroless static image> -t <hub>/pilotctl:<tag> dist/bin/linux-amd64
ARG BASE
FROM ${BASE}
COPY --chmod=0755 pilotctl /usr/local/bin/pilotctl
WORKDIR /
USER 1337:1337
ENTRYPOINT ["/usr/local/bin/pilotctl"]
