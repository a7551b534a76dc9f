package compiletest

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/config"
	"fairway/internal/golden"
	"fairway/internal/jwks"
	"fairway/internal/mesh"
	"fairway/internal/mesh/alias"
	"fairway/internal/source"
	"fairway/internal/xdstype"
)

// Golden runs every script that matches the pattern as a test of its own.
func Golden(t *testing.T, pattern string) { golden.Run(t, pattern, compareScript) }

// script is one archive while it runs.
type script struct {
	*World
	archive *golden.Archive
}

func compareScript(t *testing.T, archive *golden.Archive) {
	s := &script{World: New(t), archive: archive}
	commands := s.commands()
	for i, words := range commands {
		file, text := s.run(t, words)
		if text == nil {
			continue
		}
		got := text()
		if again := s.replay(t, commands[:i+1], false); again != got {
			t.Errorf("%s: made at once it comes out different (-at once +step by step):\n%s", file, cmp.Diff(again, got))
		}
		if again := s.replay(t, commands[:i+1], true); again != got {
			t.Errorf("%s: with a turn after each step it comes out different (-turns +fewer):\n%s", file, cmp.Diff(again, got))
		}
		archive.Result(t, file, got)
	}
}

// Play runs a script without looking at what it expects, and returns its world.
func Play(t *testing.T, file string) *World {
	t.Helper()
	s := &script{World: New(t), archive: golden.Read(t, file)}
	for _, words := range s.commands() {
		s.run(t, words)
	}
	s.Settle()
	return s.World
}

// replay runs commands in a world of its own, and returns the text that the last command would compare. It makes no turns between commands,
// or one after each.
func (s *script) replay(t *testing.T, commands [][]string, turns bool) string {
	t.Helper()
	again := &script{World: New(t), archive: s.archive}
	var last func() string
	for _, words := range commands {
		if _, last = again.run(t, words); turns {
			again.Settle()
		}
	}
	return last()
}

// commands returns the words of each line of the comment.
func (s *script) commands() (all [][]string) {
	for line := range strings.Lines(string(s.archive.Comment)) {
		if words := strings.Fields(line); len(words) > 0 && !strings.HasPrefix(words[0], "#") {
			all = append(all, words)
		}
	}
	return all
}

// run runs a command. A command that compares returns the name of the expected file, and a function that returns the actual text.
func (s *script) run(t *testing.T, words []string) (file string, text func() string) {
	t.Helper()
	at := func(n int) string {
		if n < len(words) {
			return words[n]
		}
		return ""
	}
	switch words[0] {
	case "apply":
		s.Apply(s.file(t, at(1)))
	case "credential":
		s.credential(t, words[1:])
	case "delete":
		namespace, name, _ := strings.Cut(at(2), "/")
		s.Delete(at(1), namespace, name)
	case "connect":
		s.Connect(parseProxy(words[1:]))
	case "alias":
		s.alias(words[1], words[2:])
	case "disconnect":
		s.disconnect(at(1))
	case "refuse":
		s.Settle()
		for _, id := range []mesh.ProxyID{sidecarID(at(1)), routerID(at(1))} {
			s.Reject(xdstype.ListenerURL, nil, id, strings.Join(words[2:], " "))
		}
	case "report":
		s.report(at(1), at(2), at(3))
	case "silent":
		s.In.Health.Delete(sidecarID(at(1)))
	case "keys":
		s.keys(words)
	case "stored":
		s.stored(at(1), at(2))
	case "heard":
		s.In.HealthReady.Set(struct{}{}, true)
	case "cmp":
		text = func() string { return s.Print(strings.ReplaceAll(at(2), "_", " "), at(3)) }
	case "names":
		text = s.NameText
	case "clusters":
		text = s.ClusterText
	case "listeners":
		text = s.ListenerText
	case "routes":
		text = s.RouteText
	case "patched":
		text = s.PatchedText
	case "problems":
		text = s.ProblemText
	default:
		t.Fatalf("unknown command %q", words[0])
	}
	if print := text; print != nil {
		text = func() string { s.Settle(); return print() }
	}
	return at(1), text
}

// credential stages a Secret, or a ConfigMap (configmap:<namespace>/<name>), with words in place of certificates. A decoder would need real
// certificates, and these differ in each run.
func (s *script) credential(t *testing.T, words []string) {
	t.Helper()
	at, inMap := strings.CutPrefix(words[0], "configmap:")
	kind := config.Secret
	if inMap {
		kind = config.ConfigMap
	}
	namespace, name, _ := strings.Cut(at, "/")
	c := &config.Credential{Holders: config.AnyHolder}
	for _, word := range words[1:] {
		what, text, _ := strings.Cut(word, "=")
		part := map[string]*[]byte{"chain": &c.Chain, "ca": &c.CA, "crl": &c.CRL}[what]
		if part == nil {
			t.Fatalf("unknown part of a credential: %q", word)
		}
		*part = []byte(strings.ReplaceAll(text, "_", " "))
	}
	s.In.Apply(source.Batch{Set: source.Rows{Objects: []*config.Object{{
		Key:        config.Key{Kind: kind, Namespace: namespace, Name: name},
		Spec:       &structpb.Struct{},
		Hash:       xxhash.Sum64String(strings.Join(words, " ")),
		Credential: c,
	}}}})
}

// alias stages a Service of type ExternalName of a cluster: the host that it names, and its ports (8080, TCP:5432). Without words it is
// deleted.
func (s *script) alias(name string, words []string) {
	namespace, short, _ := strings.Cut(name, "/")
	key := mesh.ServiceKey{
		Host: mesh.Host(short + "." + namespace + ".svc.cluster.local"), Namespace: namespace, Registry: "Kubernetes/east", Object: short,
	}
	at := mesh.SliceKey{Service: key, Name: alias.Slice}
	if len(words) == 0 {
		s.In.Apply(source.Batch{Gone: source.Keys{Services: []mesh.ServiceKey{key}, Slices: []mesh.SliceKey{at}}})
		return
	}
	service := &mesh.Service{
		Key: key, Resolution: mesh.DNS, External: true, Origin: mesh.ObjectRef{Kind: "Service", Namespace: namespace, Name: short},
	}
	for _, word := range words[1:] {
		if export, ok := strings.CutPrefix(word, "exportTo="); ok {
			service.ExportTo = []string{export}
			continue
		}
		port := mesh.Port{Name: "http", Protocol: mesh.HTTP}
		if protocol, number, ok := strings.Cut(word, ":"); ok {
			port.Name, word = strings.ToLower(protocol), number
			port.Protocol, _ = mesh.ParseProtocol(protocol)
		}
		number, _ := strconv.Atoi(word)
		port.Number = uint32(number)
		service.Ports = append(service.Ports, port)
	}
	s.In.Apply(source.Batch{Set: source.Rows{Services: []*mesh.Service{service}, Slices: []*mesh.Slice{{
		Key: at, Endpoints: []mesh.SliceEndpoint{{ID: words[0], Endpoint: mesh.Endpoint{Address: words[0]}}},
	}}}})
}

func (s *script) disconnect(name string) {
	for _, id := range []mesh.ProxyID{sidecarID(name), routerID(name)} {
		s.In.Proxies.Delete(id)
		s.Forget(id)
	}
}

// report stages what a sidecar's agent reports. The proxy is written as for connect, with the service account after its name.
func (s *script) report(who, address, state string) {
	name, account, _ := strings.Cut(who, "@")
	p := parseProxy([]string{"sidecar", name, address})
	p.ServiceAccount = account
	p.Name, p.Workload, _ = strings.Cut(p.Name, "=")
	p.Standing = mesh.Proven
	from, _ := netip.ParseAddr(p.IP)
	s.In.Health.Set(p.ID, mesh.HealthReport{Proxy: p, From: from, Healthy: state == "healthy", Detail: state})
}

// keys stages what an issuer answers: "-" for none, and why.
func (s *script) keys(words []string) {
	from := jwks.Source{URI: words[1], Timeout: 5 * time.Second}
	if !strings.HasSuffix(from.URI, "/keys") {
		from.URI, from.Issuer = "", from.URI
	}
	a := jwks.Answer{Keys: words[2], Failing: strings.Join(words[3:], " ")}
	if a.Keys == "-" {
		a.Keys = ""
	} else if a.Failing != "" {
		a.Good = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	}
	s.In.KeySets.Set(from, a)
}

// stored stages what another control plane wrote of a WorkloadEntry's application.
func (s *script) stored(entry, state string) {
	name, namespace, _ := strings.Cut(entry, ".")
	k := config.Key{Kind: config.WorkloadEntry, Namespace: namespace, Name: name}
	if state == "unknown" {
		s.In.HealthStored.Delete(k)
	} else {
		s.In.HealthStored.Set(k, state == "healthy")
	}
}

func sidecarID(name string) mesh.ProxyID { return proxyID("sidecar", name) }

func routerID(name string) mesh.ProxyID { return proxyID("router", name) }

func proxyID(kind, name string) mesh.ProxyID {
	return mesh.ProxyID(kind + "~" + name + "~" + name[strings.LastIndexByte(name, '.')+1:])
}

// parseProxy reads the words of connect after the command.
func parseProxy(words []string) mesh.Proxy {
	kind, name, ips := words[0], words[1], words[2]
	ip, _, _ := strings.Cut(ips, ",")
	dot := strings.LastIndexByte(name, '.')
	p := mesh.Proxy{ID: proxyID(kind, name), Name: name[:dot], Namespace: name[dot+1:], IP: ip, IPs: ips}
	if kind == "router" {
		p.Type = mesh.Router
	}
	rest := words[3:]
	if len(rest) > 0 && rest[0] != "-" {
		p.Labels = mesh.Labels(rest[0])
	}
	switch {
	case slices.Contains(rest, "none"):
		p.Interception = mesh.None
	case slices.Contains(rest, "tproxy"):
		p.Interception = mesh.TProxy
	}
	for _, word := range rest {
		if network, ok := strings.CutPrefix(word, "in="); ok {
			p.Network = network
		}
		if said, ok := strings.CutPrefix(word, "says="); ok { // metadata NAME:TEXT
			name, text, _ := strings.Cut(said, ":")
			p.Metadata = mesh.MakeMetadata(map[string]any{name: text})
		}
		if account, ok := strings.CutPrefix(word, "proven="); ok {
			p.Standing, p.ServiceAccount = mesh.Proven, account
		}
		if word == "discovers" { // its Envoy goes by the zones of its workload's peers
			p.Discovers = true
		}
		if idle, ok := strings.CutPrefix(word, "idle="); ok {
			p.Idle, _ = time.ParseDuration(idle)
		}
		if said, ok := strings.CutPrefix(word, "config="); ok { // a ProxyConfig as JSON, without blanks
			var fields map[string]any
			err := json.Unmarshal([]byte(said), &fields)
			if err == nil {
				err = p.Configure(fields)
			}
			if err != nil {
				panic(word + ": " + err.Error())
			}
		}
		if place, ok := strings.CutPrefix(word, "at="); ok {
			p.Locality = mesh.ParseLocality(place)
		}
	}
	p.AutoVIP = slices.Contains(rest, "vip")
	p.Names = slices.Contains(rest, "dns")
	p.Mutual = slices.Contains(rest, "mutual")
	p.Modules = slices.Contains(rest, "modules")
	if slices.Contains(rest, "here") {
		p.Standing = mesh.Here
	}
	return p
}

func (s *script) file(t *testing.T, name string) string {
	t.Helper()
	if !s.archive.Has(name) {
		t.Fatalf("the archive has no file %q", name)
	}
	return string(s.archive.File(name))
}
