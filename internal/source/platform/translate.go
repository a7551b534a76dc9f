package platform

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
	"unique"

	"fairway/internal/mesh"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/source"
	"fairway/internal/source/budget"
)

// Port is one that an instance listens on.
type Port struct {
	Name     string
	Number   uint32
	Protocol string // by its name in Istio's API; empty: the service's
}

// Instance is one place that serves a service, as its registry knows it.
type Instance struct {
	ID        string   // tells the instances of a service apart; it stays while the instance does
	Addresses []string // IPs of it, the first one first; or one DNS name
	Port      uint32   // the only one; it has no name
	Ports     []Port   // in place of Port
	Labels    map[string]string
	Locality  mesh.Locality
	Network   string
	Identity  string // service account or SPIFFE id; empty: unknown
	Weight    uint32 // 0: as all others that say nothing
	Health    mesh.Health

	Unreadable int // labels that it has beside these, and that are not kept because they can be none
}

// Service is one with everything that serves it, as its registry knows it.
type Service struct {
	Name, Namespace string // the registry's own words; Namespace may be empty
	Protocol        string // of ports that say none; empty: what Meta or Naming say
	Port            uint32 // that clients address; 0: what Meta or Naming say
	Addresses       []string
	Vars            map[string]string // further words for templates
	Meta            map[string]string // MetaProtocol, MetaPort and MetaExportTo are understood
	External        bool              // it is not a part of the mesh
	Instances       []Instance
}

// Keys of a service's metadata that say how it is served.
const (
	MetaProtocol = "protocol"     // what its ports speak
	MetaPort     = "service-port" // the number that clients address
	MetaExportTo = "export-to"    // who may see it, comma separated, as networking.istio.io/exportTo
)

// Bounds of one service. Anything beyond is left out and reported.
const (
	MaxInstances = 50_000 // of a service
	maxPorts     = 100    // of a service where each of its instances' is one
	maxLabels    = 100    // of an instance
	maxWord      = 512    // bytes of a name, of a label's name, of its value
	maxProblems  = 20     // of a service
	maxAddresses = 8      // of an instance
)

// Translator makes rows of a registry's services. It is a pure function, and may be used by several goroutines.
type Translator struct {
	registry string
	naming   Naming
	protocol mesh.Protocol
}

// NewTranslator returns the Translator of a registry. host is the template if naming has none. naming must be valid.
func NewTranslator(registry string, naming Naming, host string) *Translator {
	naming.Host = cmp.Or(naming.Host, host)
	naming.Namespace = cmp.Or(naming.Namespace, "{namespace}")
	protocol, _ := mesh.ParseProtocol(naming.Protocol)
	return &Translator{registry, naming, protocol}
}

// Kind is that of the shards that services are handed in as.
const Kind = "service"

// Part names the shard of a service.
func Part(namespace, name string) string { return namespace + "/" + name }

// Gone returns the shard of a service that is there no more.
func (t *Translator) Gone(namespace, name string) source.Shard {
	return source.Shard{Key: source.ShardKey{Kind: Kind, Part: Part(namespace, name)}, Whole: true}
}

// Rows makes the rows of one service: a whole shard, and its problems. A service that can have no host has no rows.
func (t *Translator) Rows(s *Service) (source.Shard, []mesh.Problem) {
	n := &notes{of: mesh.ObjectRef{
		Kind: t.registry, Namespace: printable.Text(s.Namespace, printable.Short), Name: printable.Text(s.Name, printable.Short),
	}}
	shard := t.Gone(s.Namespace, s.Name)
	key, ok := t.key(n, s)
	if !ok {
		return shard, n.list
	}
	row := &mesh.Service{
		Key: key, External: s.External, ExportTo: []string{"*"}, Addresses: n.virtual(s.Addresses),
		Origin: n.of,
	}
	if list := exportTo(s.Meta[MetaExportTo]); len(list) > 0 {
		row.ExportTo = list
	}
	instances := s.Instances
	if len(instances) > MaxInstances {
		n.add("instances", code.TooMuch, mesh.Error,
			fmt.Sprintf("%d instances; those after the first %d are left out", len(instances), MaxInstances))
		instances = instances[:MaxInstances]
	}
	ports := t.ports(n, s)
	var endpoints []mesh.SliceEndpoint
	ids := make(map[string]bool, len(instances))
	for i := range instances {
		in := &instances[i]
		if ids[in.ID] {
			n.add("instances", code.Duplicate, mesh.Warning,
				fmt.Sprintf("instance %s is there twice; the second is left out", quoted(in.ID)))
			continue
		}
		if e, ok := n.endpoint(in, ports); ok {
			ids[in.ID] = true
			endpoints = append(endpoints, e)
		}
	}
	row.Ports = ports.list()
	row.Resolution, endpoints = n.resolution(endpoints)
	shard.Rows.Services = []*mesh.Service{row}
	shard.Rows.Slices = sliced(key, endpoints)
	return shard, n.list
}

// TooManyPorts returns the problem of a service that is left out because there is no room for its ports.
func (t *Translator) TooManyPorts(s *Service, ports int, b budget.Bounds) mesh.Problem {
	return mesh.Problem{
		Object: mesh.ObjectRef{
			Kind: t.registry, Namespace: printable.Text(s.Namespace, printable.Short), Name: printable.Text(s.Name, printable.Short),
		},
		Field: "instances", Code: code.TooMuch, Severity: mesh.Error,
		Message: fmt.Sprintf("its instances listen on %d ports, and the registry's services have no more than %d beside the first "+
			"of each; the service is left out", ports, b.Ports),
		Fix: "set the port that clients address: " + MetaPort + " of the service, or port of the registry; " +
			"or raise maxPorts of the registry",
	}
}

// resolution returns STATIC if endpoints have IPs, and DNS if all have names. A service of both keeps those with IPs: an added
// endpoint with a name does not change the others.
func (n *notes) resolution(all []mesh.SliceEndpoint) (mesh.Resolution, []mesh.SliceEndpoint) {
	named := 0
	for i := range all {
		if !isIP(all[i].Address) {
			named++
		}
	}
	switch named {
	case 0:
		return mesh.ClientSide, all
	case len(all):
		return mesh.DNS, all
	}
	n.addFix("instances", code.AddressForm, mesh.Error,
		fmt.Sprintf("%d instances have a name for an address where others have an IP; they are left out", named),
		"give all instances IPs, or all of them names")
	return mesh.ClientSide, slices.DeleteFunc(all, func(e mesh.SliceEndpoint) bool { return !isIP(e.Address) })
}

func (t *Translator) key(n *notes, s *Service) (mesh.ServiceKey, bool) {
	if s.Name == "" || len(s.Name) > maxWord || !utf8.ValidString(s.Name) || !utf8.ValidString(s.Namespace) {
		n.add("name", code.BadName, mesh.Error, quoted(s.Name)+" is not a name; the service is left out")
		return mesh.ServiceKey{}, false
	}
	words := map[string]string{}
	for k, v := range s.Vars {
		words[k] = v
	}
	words["name"], words["namespace"] = s.Name, cmp.Or(s.Namespace, DefaultNamespace)
	host := strings.ToLower(fill(t.naming.Host, words))
	namespace := strings.ToLower(fill(t.naming.Namespace, words))
	if !isHost(host) {
		n.addFix("host", code.BadHost, mesh.Error, quoted(host)+" is not a host; the service is left out",
			"give the service a name of letters, digits, '-' and '.', or the registry another template")
		return mesh.ServiceKey{}, false
	}
	if !isNamespace(namespace) {
		n.add("namespace", code.BadName, mesh.Error, quoted(namespace)+" is not a namespace; the service is left out")
		return mesh.ServiceKey{}, false
	}
	return mesh.ServiceKey{
		Host: mesh.Host(host), Namespace: shared(namespace), Registry: t.registry, Object: Part(s.Namespace, s.Name),
	}, true
}

// exportTo reads a list; words that are not namespaces are left out.
func exportTo(text string) (out []string) {
	for one := range strings.SplitSeq(text, ",") {
		if one = strings.TrimSpace(one); one == "*" || one == "." || one == "~" || isNamespace(one) {
			out = append(out, one)
		}
	}
	return out
}

// virtual returns the addresses that clients use, sorted.
func (n *notes) virtual(all []string) (out []string) {
	for _, a := range all {
		if ip, err := netip.ParseAddr(a); err == nil && !ip.IsLoopback() && !ip.IsUnspecified() && ip.Zone() == "" {
			out = append(out, ip.Unmap().String())
			continue
		}
		n.add("addresses", code.BadAddress, mesh.Warning, quoted(a)+" is not an address that clients could use; it is left out")
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func isIP(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// notes gathers problems of one service.
type notes struct {
	of       mesh.ObjectRef
	list     []mesh.Problem
	labelled bool // a problem of labels has been reported
}

func (n *notes) add(field, code string, severity mesh.Severity, message string) {
	n.addFix(field, code, severity, message, "")
}

func (n *notes) addFix(field, code string, severity mesh.Severity, message, fix string) {
	p := mesh.Problem{Object: n.of, Field: field, Code: code, Severity: severity, Message: message, Fix: fix}
	if len(n.list) < maxProblems && !slices.Contains(n.list, p) {
		n.list = append(n.list, p)
	}
}

// shared returns the one copy of a word that many rows have.
func shared(s string) string { return unique.Make(s).Value() }

func sharedLabels(l mesh.Labels) mesh.Labels { return mesh.Labels(shared(string(l))) }

func quoted(s string) string { return strconv.Quote(printable.Text(s, printable.Short)) }
