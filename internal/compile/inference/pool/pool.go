package pool

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"fairway/internal/config"
	"fairway/internal/config/native"
	"fairway/internal/mesh"
)

// Nowhere is the host of a picker that cannot be called: no service can have it.
const Nowhere mesh.Host = "~"

// suffix of the host of a pool. No service can have such a name, and no user can write it.
const suffix = ".inferencepool~"

// longestName is how much of a pool's name its host has: Envoy takes TLS server names of at most 255 bytes.
const longestName = 63

// Host returns the host that a pool has in the place of a service's.
func Host(namespace, name string) mesh.Host {
	if len(name) > longestName {
		sum := sha256.Sum256([]byte(name))
		hash := "~" + hex.EncodeToString(sum[:8])
		name = name[:longestName-len(hash)] + hash
	}
	return mesh.Host(strings.ToLower(name + "." + namespace + suffix))
}

// IsHost reports whether a host is a pool's.
func IsHost(h mesh.Host) bool { return strings.HasSuffix(string(h), suffix) }

// Spec returns the specification of a pool.
func Spec(o *config.Object) *native.InferencePoolSpec { return o.Native.(*native.InferencePoolSpec) }

// Labels returns the labels of the workloads that a pool selects (InferencePoolSpec.selector).
func Labels(o *config.Object) mesh.Labels { return mesh.MakeLabels(Spec(o).Selector.MatchLabels) }

// Port returns the port that a pool has in the place of a service's. It has the number of the first of its endpoints' ports, and the
// protocol of all of them (InferencePoolSpec.appProtocol).
func Port(o *config.Object) mesh.Port {
	p := mesh.Port{Name: portName, Number: Targets(o)[0], Protocol: mesh.HTTP}
	if Spec(o).AppProtocol == native.H2C {
		p.Protocol = mesh.HTTP2
	}
	return p
}

const portName = "http"

// Targets lists the ports of each workload that are endpoints, in order, each once (InferencePoolSpec.targetPorts).
func Targets(o *config.Object) (out []uint32) {
	for _, p := range Spec(o).TargetPorts {
		if !slices.Contains(out, p.Number) {
			out = append(out, p.Number)
		}
	}
	return out
}

// On returns the ports of an endpoint at a port of a workload.
func On(target uint32) mesh.PortMap {
	return mesh.MakeLabels(map[string]string{portName: strconv.FormatUint(uint64(target), 10)})
}

// PickerField is the field of a pool that names its picker.
const PickerField = "spec.endpointPickerRef"

// Picker returns the endpoint picker of a pool; zero: it has none. If the pool names something that cannot be a picker, the host is
// Nowhere.
func Picker(o *config.Object, domain string) mesh.Picker {
	ref := Spec(o).EndpointPickerRef
	if ref == nil {
		return mesh.Picker{}
	}
	p := mesh.Picker{Host: Nowhere, Open: ref.FailureMode == native.FailOpen}
	if IsService(ref) && ref.Port != nil {
		p.Host, p.Port = mesh.FullHost(strings.ToLower(ref.Name), o.Namespace, domain), ref.Port.Number
	}
	return p
}

// IsService reports whether a reference to a picker names a Service, and not another kind. The name may have no dot, which would be a name
// of another namespace.
func IsService(ref *native.EndpointPickerRef) bool {
	return ref.Group == "" && (ref.Kind == "" || ref.Kind == "Service") && !strings.Contains(ref.Name, ".")
}
