package mesh

import (
	"path"
	"slices"
	"strings"
)

// guardedPorts are the default ports of Envoy and its agent, and of the control plane if it shares their machine: administration,
// interception, the tunnel, the agent's status and names, readiness and metrics; xDS, its web hooks and its monitoring.
var guardedPorts = []uint32{15000, 15001, 15002, 15004, 15006, 15008, 15009, 15010, 15012, 15014, 15017, 15020, 15021, 15053, 15090}

// agentPorts are the guardedPorts where Envoy and its agent listen beside each workload.
var agentPorts = []uint32{15000, 15001, 15004, 15006, 15008, 15009, 15020, 15021, 15053, 15090}

// IsAgentPort reports whether Envoy or its agent listens on a port by default. No listener for a service may use it on loopback.
func IsAgentPort(port uint32) bool { return slices.Contains(agentPorts, port) }

// gatewayPorts are those of agentPorts that Envoy and its agent open on the machine of a gateway, too.
var gatewayPorts = []uint32{15000, 15020, 15021, 15090}

// IsGatewayPort reports whether Envoy or its agent listens on a port of every gateway by default. No server of a Gateway may use it.
func IsGatewayPort(port uint32) bool { return slices.Contains(gatewayPorts, port) }

// Guarded reports whether an address leads to something that Envoy, its agent or the control plane serves to its own machine only. No rule
// may lead there, regardless of its author. ports are further guarded ports. folder is where the agent of this mesh keeps its sockets; if
// it is "", only the agent's default folder counts.
func Guarded(address string, port uint32, ports []uint32, folder string) bool {
	switch ReachOf(address) {
	case OnMachine:
		return slices.Contains(guardedPorts, port) || slices.Contains(ports, port)
	case Socket:
		return guardedSocket(address, folder)
	}
	return false
}

// guardedSocket compares with the names that agents and SPIRE use. A path that could be an alias of one, such as one through /proc, counts
// as guarded.
func guardedSocket(address, folder string) bool {
	name := strings.TrimPrefix(strings.TrimPrefix(address, "unix:"), "//")
	if abstract, ok := strings.CutPrefix(name, "@"); ok {
		return strings.HasPrefix(strings.ToLower(abstract), "envoy") || strings.ContainsRune(name, 0)
	}
	if !strings.HasPrefix(name, "/") || strings.ContainsRune(name, 0) {
		return true
	}
	name = path.Clean(name)
	if folder = path.Clean("/" + folder); folder != "/" && strings.HasPrefix(name+"/", folder+"/") {
		return true
	}
	elements := strings.Split(strings.ToLower(name[1:]), "/")
	if last := elements[len(elements)-1]; last == "sds" || last == "xds" {
		return true
	}
	return elements[0] == "proc" || elements[0] == "dev" || slices.ContainsFunc(elements, func(e string) bool {
		return e == "istio" || e == "secrets" || e == "hot-restart" || strings.Contains(e, "envoy") || strings.Contains(e, "fairway") ||
			strings.Contains(e, "spire") ||
			strings.Contains(e, "spiffe")
	})
}
