package workload

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"
	"sigs.k8s.io/yaml"
)

// The labels that name a workload's service in metrics and traces.
const (
	canonicalName     = "service.istio.io/canonical-name"
	canonicalRevision = "service.istio.io/canonical-revision"
)

// variables returns the variables of cluster.env. Paths are relative to the agent's working folder.
func (m *machine) variables() (map[string]string, error) {
	labels := maps.Clone(m.labels)
	or := func(key, otherwise string) {
		if labels[key] == "" && otherwise != "" {
			labels[key] = otherwise
		}
	}
	or("app", m.name)
	or(canonicalName, labels["app"])
	or("version", labels[canonicalRevision])
	or(canonicalRevision, labels["version"])
	or(canonicalRevision, "latest")
	or("istio-locality", strings.ReplaceAll(m.template.GetLocality(), "/", "."))
	asJSON, err := json.Marshal(labels)
	if err != nil {
		return nil, err
	}
	vars := map[string]string{
		"CANONICAL_SERVICE": labels[canonicalName], "CANONICAL_REVISION": labels[canonicalRevision],
		"POD_NAMESPACE": m.namespace, "SERVICE_ACCOUNT": m.id.ServiceAccount, "TRUST_DOMAIN": m.id.TrustDomain,
		"CA_ADDR": m.Discovery, "CA_ROOT_CA": "./" + rootFile, "JWT_TOKEN_PATH": "./" + tokenFile,
		"PROV_CERT": "./" + stateDir + "/certs", "OUTPUT_CERTS": "./" + stateDir + "/certs",
		"ISTIO_META_CLUSTER_ID": m.ClusterID, "ISTIO_META_WORKLOAD_NAME": m.name, "ISTIO_META_INTERCEPTION_MODE": m.Interception,
		"ISTIO_METAJSON_LABELS": string(asJSON), "ISTIO_SERVICE": m.name + "." + m.namespace, "ISTIO_NAMESPACE": m.namespace,
	}
	if m.CaptureDNS {
		vars["ISTIO_META_DNS_CAPTURE"] = "true"
	}
	if m.template.GetNetwork() != "" {
		vars["ISTIO_META_NETWORK"] = m.template.GetNetwork()
	}
	if m.Interception != "NONE" {
		maps.Copy(vars, map[string]string{
			"ISTIO_INBOUND_PORTS": "*", "ISTIO_LOCAL_EXCLUDE_PORTS": "22,15090,15021,15020", "ISTIO_SERVICE_CIDR": "*", "PROXY_UID": m.User,
			"ISTIO_INBOUND_INTERCEPTION_MODE": m.Interception,
		})
	}
	if len(m.annotations) > 0 {
		if asJSON, err = json.Marshal(m.annotations); err != nil {
			return nil, err
		}
		vars["ISTIO_METAJSON_ANNOTATIONS"] = string(asJSON)
	}
	if m.Address != "" {
		vars["INSTANCE_IP"] = m.Address
	}
	switch {
	case m.AutoRegister:
		vars["ISTIO_META_AUTO_REGISTER_GROUP"] = m.name
	case m.Address != "":
		vars["ISTIO_META_WORKLOAD_ENTRY"] = m.entryName()
	}
	return vars, nil
}

// clusterEnv writes variables so that systemd (EnvironmentFile=) and a shell read them alike: in single quotes, so that a value must not
// contain one.
func (m *machine) clusterEnv() (string, error) {
	vars, err := m.variables()
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(vars)) {
		if strings.ContainsAny(vars[name], "'\n") {
			return "", fmt.Errorf("%s: %q: a value here may hold neither a single quote nor a line break", name, vars[name])
		}
		fmt.Fprintf(&b, "%s='%s'\n", name, vars[name])
	}
	return b.String(), nil
}

// meshYAML returns the agent's own configuration, in the form of a mesh configuration file.
func (m *machine) meshYAML() (string, error) {
	return asYAML(&meshconfig.MeshConfig{DefaultConfig: &meshconfig.ProxyConfig{
		DiscoveryAddress: m.Discovery, BinaryPath: m.Envoy, ConfigPath: "./" + stateDir + "/proxy", ReadinessProbe: m.probe,
	}})
}

func asYAML(message proto.Message) (string, error) {
	text, err := protojson.Marshal(message)
	if err != nil {
		return "", err
	}
	out, err := yaml.JSONToYAML(text)
	return string(out), err
}

// hosts returns the line that the machine's /etc/hosts needs, if any.
func (m *machine) hosts() string {
	if m.IngressIP == "" {
		return "# nothing is missing: the control plane is found at " + m.Discovery + "\n"
	}
	return m.IngressIP + " " + m.discoveryHost + "\n"
}

// entryName returns the group's name and the address, in a form that is allowed in names.
func (m *machine) entryName() string {
	address := m.Address
	if a, err := netip.ParseAddr(address); err == nil {
		address = a.String()
	}
	return m.name + "-" + strings.Trim(strings.NewReplacer(".", "-", ":", "-").Replace(address), "-")
}

// workloadEntry returns the object by which the control plane knows the machine. If the group has a probe, the machine takes traffic once
// its agent has reported it healthy.
func (m *machine) workloadEntry() (string, error) {
	spec := proto.Clone(m.template).(*networking.WorkloadEntry)
	spec.Address, spec.Labels, spec.ServiceAccount = m.Address, m.labels, m.id.ServiceAccount
	body, err := asYAML(spec)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata:\n  name: %s\n  namespace: %s\n",
		m.entryName(), m.namespace)
	if m.probe != nil {
		b.WriteString("  annotations:\n    proxy.istio.io/health-checks-enabled: \"true\"\n")
	}
	b.WriteString("spec:\n")
	for line := range strings.Lines(body) {
		b.WriteString("  " + line)
	}
	return b.String(), nil
}
