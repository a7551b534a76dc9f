# What stands beside workloads and at gateways: stock Envoy and the agent, one static binary. Init containers that intercept traffic run it too.
#
#   make programs
#   docker build -f deploy/docker/proxyv2.Dockerfile -t <hub>/proxyv2:<tag> dist/bin/linux-amd64
#
# Envoy's own distroless image has the C library that Envoy needs, and no shell. Injected containers say as which user they run.
ARG ENVOY=envoyproxy/envoy:distroless-v1.40.0
FROM ${ENVOY}
COPY --chmod=0755 pilot-agent /usr/local/bin/pilot-agent
# Hooks of injected containers run pilot-agent by its name.
ENV PATH=/usr/local/bin:/usr/bin:/bin
WORKDIR /
USER 1337:1337
ENTRYPOINT ["/usr/local/bin/pilot-agent"]
CMD ["proxy", "sidecar"]
