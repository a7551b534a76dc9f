package edit

// ContainerLists returns the fields of a pod's spec that hold containers.
func ContainerLists() []string { return []string{"containers", "initContainers"} }

// Handlers are the fields of a probe with its method, except exec, which runs in the container.
func Handlers() []string { return []string{"httpGet", "tcpSocket", "grpc"} }

// ProbeKinds are the fields of a container that hold probes, with the last part of their paths.
func ProbeKinds() map[string]string {
	return map[string]string{"livenessProbe": "livez", "readinessProbe": "readyz", "startupProbe": "startupz"}
}

// HookKinds are the fields of a container's lifecycle that hold hooks, with the last part of their paths.
func HookKinds() map[string]string {
	return map[string]string{"postStart": "poststartz", "preStop": "prestopz"}
}
