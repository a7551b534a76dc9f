// Package kubelet runs the pods of a test's API server as processes: a small kubelet of the tests' own. Each pod has a
// network namespace with an address of its own on a bridge, each of its containers a root file system, a host name and
// processes of its own, the user and the capabilities that it asks for, and a log file. The API server, its controllers and
// the mesh's control plane run in the namespace that has the bridge, Host; the test reaches all of them by dialing there.
//
// The kubelet carries out scheduling (one node), volumes (Secret, ConfigMap, downward API, projected ones with tokens
// for an audience, emptyDir), variables of fields, Secrets and ConfigMaps, $(NAME) in commands and values, init
// containers in their order, native sidecars, hooks, startup, readiness and liveness probes, restarts, statuses, and
// the end of a pod: preStop, SIGTERM, the grace period, sidecars last. It answers kubectl logs, exec and port-forward. An image is a list
// of local programs, or an unpacked image. Names resolves the names of Services. Only Carry forwards connections to a Service's address;
// without it sidecars do.
//
// It does not carry out resources and their limits, images from registries, seccomp, host networks, host ports, persistent volumes,
// kubectl attach.
//
// The processes of a container are in a process namespace of their own. Its first process dies with the program that runs the kubelet, so
// that nothing is left, even if a test panics or is killed. Programs that start a kubelet call Enter first in main or TestMain. The
// kubelet needs root and namespaces; if it cannot have them, NewNetwork skips the test and says why.
package kubelet
