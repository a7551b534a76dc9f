// Package nodeid reads what an Envoy says of itself when it connects: its node id, and the metadata that istio-proxy puts beside it.
//
// All of it comes from outside: it is bounded, and an error says what is wrong. What the proxy can prove is not decided here, but in
// app/proof. The package must not know messages of xDS, streams or tables. Start at Parse.
package nodeid

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"fairway/internal/mesh"
)

// ErrNode is wrapped by every error of Parse: the node's data does not describe a proxy that can be served.
var ErrNode = errors.New("bad node")

// Node is an Envoy's description of itself in its first request (xDS: envoy.config.core.v3.Node), free of any message type.
type Node struct {
	ID       string         // "sidecar~10.0.0.1~web-1.shop~shop.svc.cluster.local"
	Metadata map[string]any // Istio's node metadata as JSON decodes it: strings, bools, float64, []any, map[string]any
	Locality mesh.Locality  // of the node itself; the zero value if it has none
}

// Limits for a node, because it comes from outside. Lengths are in bytes.
const (
	maxNodeID     = 1024
	maxNodeLabels = 256
	maxNodeText   = 256  // one value of metadata that is read, a label's key or value, a part of the locality
	maxAddresses  = 16   // a workload's addresses
	maxNodeList   = 1024 // INSTANCE_IPS: sixteen IPv6 addresses with separators
	maxLabelKey   = 317  // Kubernetes': a prefix, a slash and a name
	maxNamespace  = 253
)

// Parse reads the node id type~ip~id~domain and Istio's node metadata into a Proxy. The id part ends in ".<namespace>", and the
// metadata's NAMESPACE is the same, or only one of the two is set. Metadata of the wrong type is ignored, because a newer agent may use
// another type. Data without which the proxy cannot be served, and data over the limits, is an error; every error wraps ErrNode.
func Parse(n Node) (mesh.Proxy, error) {
	if err := checkNode(n); err != nil {
		return mesh.Proxy{}, err
	}
	parts := strings.Split(n.ID, "~")
	if len(parts) != 4 {
		return mesh.Proxy{}, fmt.Errorf("%w: id %q has %d parts between '~', want type~ip~id~domain", ErrNode, n.ID, len(parts))
	}
	p := mesh.Proxy{ID: mesh.ProxyID(n.ID), DNSDomain: parts[3]}
	var err error
	if p.Type, err = parseProxyType(parts[0]); err != nil {
		return mesh.Proxy{}, err
	}
	if p.IP, err = parseNodeIP(parts[1], n.Metadata); err != nil {
		return mesh.Proxy{}, err
	}
	if p.Name, p.Namespace, err = splitNodeName(parts[2], text(n.Metadata, "NAMESPACE")); err != nil {
		return mesh.Proxy{}, err
	}
	if err := describe(&p, n); err != nil {
		return mesh.Proxy{}, err
	}
	return p, nil
}

// readMetadata are the names of the metadata that is read as text. Other entries are kept as Metadata.
var readMetadata = [...]string{
	"NAMESPACE",
	"CLUSTER_ID",
	"NETWORK",
	"INTERCEPTION_MODE",
	"SERVICE_ACCOUNT",
	"ISTIO_VERSION",
	"DNS_CAPTURE",
	"DNS_AUTO_ALLOCATE",
	"HTTP10",
	"IDLE_TIMEOUT",
	"WORKLOAD_ENTRY",
	"FAIRWAY_IDENTITY",
	"FAIRWAY_EXTENSIONS",
}

// checkNode refuses a node whose data is over the limits or whose id cannot be printed.
func checkNode(n Node) error {
	if len(n.ID) > maxNodeID {
		return fmt.Errorf("%w: its id has %d bytes, at most %d are allowed", ErrNode, len(n.ID), maxNodeID)
	}
	if i := strings.IndexFunc(n.ID, func(r rune) bool { return r <= ' ' || r > '~' }); i >= 0 {
		return fmt.Errorf("%w: byte %d of its id is not a visible character of ASCII", ErrNode, i)
	}
	for _, key := range readMetadata {
		if v := text(n.Metadata, key); len(v) > maxNodeText {
			return fmt.Errorf("%w: metadata %s has %d bytes, at most %d are allowed", ErrNode, key, len(v), maxNodeText)
		}
	}
	if v := text(n.Metadata, "INSTANCE_IPS"); len(v) > maxNodeList || strings.Count(v, ",") >= maxAddresses {
		return fmt.Errorf("%w: metadata INSTANCE_IPS has more than %d addresses or %d bytes", ErrNode, maxAddresses, maxNodeList)
	}
	for _, v := range [...]string{n.Locality.Region, n.Locality.Zone, n.Locality.SubZone} {
		if len(v) > maxNodeText {
			return fmt.Errorf("%w: a part of its locality has %d bytes, at most %d are allowed", ErrNode, len(v), maxNodeText)
		}
	}
	return checkLabels(n.Metadata)
}

func checkLabels(md map[string]any) error {
	raw, _ := md["LABELS"].(map[string]any)
	if len(raw) > maxNodeLabels {
		return fmt.Errorf("%w: it has %d labels, at most %d are allowed", ErrNode, len(raw), maxNodeLabels)
	}
	for k, v := range raw {
		if s, _ := v.(string); len(k) > maxLabelKey || len(s) > maxNodeText {
			return fmt.Errorf("%w: a label has a key of %d and a value of %d bytes, at most %d and %d are allowed", ErrNode,
				len(k), len(s), maxLabelKey, maxNodeText)
		}
	}
	return nil
}

// describe fills in what metadata says beyond the id.
func describe(p *mesh.Proxy, n Node) error {
	md := n.Metadata
	p.IPs = allAddresses(p.IP, text(md, "INSTANCE_IPS"))
	p.Labels = nodeLabels(md)
	p.Cluster = text(md, "CLUSTER_ID")
	p.Network = text(md, "NETWORK")
	p.Locality = n.Locality
	p.Interception = parseInterception(text(md, "INTERCEPTION_MODE"))
	p.ServiceAccount = text(md, "SERVICE_ACCOUNT")
	p.Version = text(md, "ISTIO_VERSION")
	p.Names = flag(md, "DNS_CAPTURE")
	p.AutoVIP = p.Names && flag(md, "DNS_AUTO_ALLOCATE")
	if config, ok := md["PROXY_CONFIG"].(map[string]any); ok {
		if err := p.Configure(config); err != nil {
			return fmt.Errorf("%w: its metadata PROXY_CONFIG: %w", ErrNode, err)
		}
	}
	p.HTTP.HTTP10 = flag(md, "HTTP10")
	if d, err := time.ParseDuration(text(md, "IDLE_TIMEOUT")); err == nil && d > 0 {
		p.Idle = d
	}
	p.Workload = text(md, "WORKLOAD_ENTRY")
	p.Discovers = flag(md, mesh.SelfDiscovery)
	p.Mutual = text(md, "FAIRWAY_IDENTITY") != "none"
	p.Modules = text(md, "FAIRWAY_EXTENSIONS") == "agent"
	p.Metadata = mesh.MakeMetadata(md)
	if p.Locality == (mesh.Locality{}) {
		p.Locality, _ = p.Labels.Locality()
	}
	return nil
}

func parseProxyType(s string) (mesh.ProxyType, error) {
	switch s {
	case "sidecar":
		return mesh.Sidecar, nil
	case "router":
		return mesh.Router, nil
	}
	return 0, fmt.Errorf("%w: type %q is neither sidecar nor router", ErrNode, s)
}

// parseNodeIP reads the id's address; a proxy that learns its address late leaves it out and lists it in metadata.
func parseNodeIP(s string, md map[string]any) (string, error) {
	if s == "" {
		s, _, _ = strings.Cut(text(md, "INSTANCE_IPS"), ",")
	}
	addr, err := netip.ParseAddr(strings.TrimSpace(s))
	if err != nil {
		return "", fmt.Errorf("%w: address %q is not an IP address", ErrNode, s)
	}
	return addr.String(), nil
}

// splitNodeName splits the id part "name.namespace". Names may hold dots, namespaces may not. An id without a dot leaves the namespace to
// the metadata.
func splitNodeName(id, said string) (name, namespace string, err error) {
	name, namespace = id, said
	if dot := strings.LastIndexByte(id, '.'); dot >= 0 {
		name, namespace = id[:dot], id[dot+1:]
	}
	switch {
	case namespace == "":
		return "", "", fmt.Errorf("%w: id %q names no namespace: want the third part to be <name>.<namespace>, or metadata NAMESPACE",
			ErrNode, id)
	case said != "" && said != namespace:
		return "", "", fmt.Errorf(
			"%w: the third part of its id, %q, ends in another namespace than metadata NAMESPACE, %q: want <name>.%s",
			ErrNode,
			id,
			said,
			said,
		)
	case len(namespace) > maxNamespace || strings.ContainsFunc(namespace, notOfName):
		return "", "", fmt.Errorf("%w: %q is not a namespace: want at most %d letters, digits, '-' and '_'",
			ErrNode, namespace, maxNamespace)
	}
	return name, namespace, nil
}

// notOfName reports whether a namespace must not have this character.
func notOfName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

func allAddresses(first, list string) string {
	all := []string{first}
	for s := range strings.SplitSeq(list, ",") {
		addr, err := netip.ParseAddr(strings.TrimSpace(s))
		if err == nil && addr.String() != first {
			all = append(all, addr.String())
		}
	}
	return strings.Join(all, ",")
}

func nodeLabels(md map[string]any) mesh.Labels {
	raw, _ := md["LABELS"].(map[string]any)
	labels := make(map[string]string, len(raw))
	for k, v := range raw {
		if s, ok := v.(string); ok {
			labels[k] = s
		}
	}
	return mesh.MakeLabels(labels)
}

func parseInterception(s string) mesh.Interception {
	switch s {
	case "TPROXY":
		return mesh.TProxy
	case "NONE":
		return mesh.None
	}
	return mesh.Redirect
}

func text(md map[string]any, key string) string {
	s, _ := md[key].(string)
	return s
}

// flag reads a boolean, which istio-proxy writes as "true", "1" or a JSON bool depending on its version.
func flag(md map[string]any, key string) bool {
	if b, ok := md[key].(bool); ok {
		return b
	}
	b, _ := strconv.ParseBool(text(md, key))
	return b
}
