package envoy

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"fairway/test/envoy/live"
	"fairway/test/rig"
)

// script is a case that is data alone: a txtar file below testdata/features, or testdata/alone, with its commands first, the
// rules they apply after them. ${ip:NAME} is an address of the mesh, and ${port:NAME} the port of a backend that localhost
// started; ${issuer:NAME} is the address of an issuer, ${keys:NAME} its key set, and ${token:NAME} a token. In commands they stand
// between quotation marks ('${ip:NAME}').
//
//	backend NAME…                HTTP servers, at port 8080 of the addresses of their names
//	tcp NAME…                    servers that greet connections, at port 9000
//	localhost NAME               an HTTP server at a port of 127.0.0.1 that the system chooses
//	sidecar NAME [LABEL=VALUE]…  one more proxy; its label app is its name where no labels are given
//	gateway NAME LABEL=VALUE…    one more gateway
//	forwarder NAME…              HTTP proxies that take CONNECT, at port 3128
//	asked FORWARDER N            how many connections it was asked for so far
//	certificate NAME…            certificates for names, and files of them: ${cert:NAME}, ${key:NAME}; ${authority:} signed them all
//	refuse REQUEST               sends a request until it gets no answer, since its connection is closed
//	identity NAME…               identities of service accounts of those names, for requests (as=NAME)
//	workload NAME [LABEL=VALUE]… a sidecar whose identity is that of the service account of its name
//	issuer NAME…                 issuers of tokens (OpenID Connect)
//	rotate NAME                  the issuer has another key from now on
//	silence NAME, speak NAME     the issuer answers errors alone; it answers again
//	token NAME ISSUER [CLAIMS]   a token with these claims (JSON)
//	apply FILE…                  sets the objects of all the files at once, and waits until they are in force
//	set FILE…                    apply without waiting
//	delete KIND NAME…            takes objects away (pairs), "VirtualService reviews" or "VirtualService shop/reviews"
//	ask REQUEST -> ANSWER        sends one request
//	await REQUEST -> ANSWER      the same, until the answer is as wanted
//	share N REQUEST -> SHARES    who answers N requests: "v1=90..110 v2=*"; * is the rest, and nobody else may answer
//	stick N REQUEST              30 values in the place of {}: each one meets one backend, all together meet N
//	dial N NAME:PORT -> SHARES   who takes N connections
//	clusters PROXY NAME…         the services' clusters that it holds, and no other
//	stat PROXY REGEXP N          waits until what is counted adds up to N at least
//	received BACKEND WORD…       waits for a request with these words of an answer
//	count BACKEND N              how many requests came since this was last asked
//	fail BACKEND N               the next N requests are answered 503
//
// What a REQUEST and an ANSWER are says request_test.go.
type script struct {
	m        *live.Mesh
	backends map[string]*live.Backend
	counted  map[string]int
	ports    map[string]int // of backends on localhost
	issuers  map[string]*live.Issuer
	tokens   map[string]string
	trust    *live.Trust // of identities; nil before the first
	// authority signed the certificates; nil before the first.
	authority    *live.Authority
	certificates map[string]live.Pair
	forwarders   map[string]*live.Forwarder
	// identities are those of service accounts.
	identities map[string]live.Identity
}

// Keys of the values of a script.
type (
	scriptKey  struct{}
	testingKey struct{}
)

// scripts runs all of a folder side by side, in one mesh.
func scripts(t *testing.T, m *live.Mesh, folder string) {
	t.Helper()
	commands := map[string]func(*testscript.TestScript, bool, []string){}
	for name, c := range map[string]struct {
		run   func(*script, testing.TB, []string) error
		least int // this many arguments
	}{
		"backend": {(*script).backend, 1}, "tcp": {(*script).tcp, 1}, "localhost": {(*script).localhost, 1},
		"forwarder": {(*script).forwarder, 1}, "asked": {(*script).asked, 2}, "certificate": {(*script).certificate, 1},
		"refuse": {(*script).refuse, 1}, "identity": {(*script).identity, 1}, "workload": {(*script).workload, 1},
		"sidecar": {(*script).sidecar, 1}, "gateway": {(*script).gateway, 2}, "delete": {(*script).remove, 2},
		"ask": {(*script).ask, 3}, "await": {(*script).await, 3}, "share": {(*script).share, 4}, "dial": {(*script).dial, 4},
		"stick": {(*script).stick, 2}, "clusters": {(*script).clusters, 1}, "stat": {(*script).stat, 3},
		"issuer": {(*script).issuer, 1}, "token": {(*script).token, 2}, "rotate": {(*script).rotate, 1},
		"silence": {(*script).silence, 1}, "speak": {(*script).speak, 1},
		"received": {(*script).received, 2}, "count": {(*script).count, 2}, "fail": {(*script).fail, 2},
	} {
		commands[name] = command(func(s *script, t testing.TB, _ *testscript.TestScript, args []string) error {
			if len(args) < c.least {
				return fmt.Errorf("%s takes %d arguments at least", name, c.least)
			}
			return c.run(s, t, args)
		})
	}
	for name, run := range map[string]func(*live.Mesh, testing.TB, ...string){"apply": (*live.Mesh).Apply, "set": (*live.Mesh).Set} {
		commands[name] = command(func(s *script, t testing.TB, ts *testscript.TestScript, args []string) error {
			run(s.m, t, s.rules(t, ts, args)...)
			return nil
		})
	}
	testscript.Run(t, testscript.Params{
		Dir:  folder,
		Cmds: commands,
		Setup: func(env *testscript.Env) error {
			env.Values[testingKey{}] = env.T().(testing.TB)
			env.Values[scriptKey{}] = &script{
				m: m, backends: map[string]*live.Backend{}, counted: map[string]int{}, ports: map[string]int{},
				issuers: map[string]*live.Issuer{}, tokens: map[string]string{},
				certificates: map[string]live.Pair{}, forwarders: map[string]*live.Forwarder{},
			}
			return nil
		},
	})
}

// command makes one of a script out of a function.
func command(run func(*script, testing.TB, *testscript.TestScript, []string) error) func(*testscript.TestScript, bool, []string) {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		if neg {
			ts.Fatalf("no command of these scripts can be negated")
		}
		s, t := ts.Value(scriptKey{}).(*script), ts.Value(testingKey{}).(testing.TB)
		for i, arg := range args {
			args[i] = rig.Fill(t, "a command", arg, s.m.Address, s.word)
		}
		if err := run(s, t, ts, args); err != nil {
			ts.Fatalf("%v", err)
		}
	}
}

// rules are the texts of files, with addresses and ports.
func (s *script) rules(t testing.TB, ts *testscript.TestScript, files []string) (all []string) {
	for _, file := range files {
		all = append(all, rig.Fill(t, file, ts.ReadFile(file), s.m.Address, s.word))
	}
	return all
}

// word is what stands in the place of ${KIND:NAME}.
func (s *script) word(word string) (string, bool) {
	kind, name, _ := strings.Cut(word, ":")
	switch kind {
	case "port":
		port, ok := s.ports[name]
		return strconv.Itoa(port), ok
	case "cert", "key":
		pair, ok := s.certificates[name]
		if kind == "key" {
			return pair.KeyFile, ok
		}
		return pair.CertFile, ok
	case "authority":
		if s.authority == nil {
			return "", false
		}
		return s.authority.File, true
	case "token":
		token, ok := s.tokens[name]
		return token, ok
	case "issuer", "keys":
		i, ok := s.issuers[name]
		if !ok {
			return "", false
		}
		if kind == "keys" {
			return i.Keys(), true
		}
		return i.URL, true
	}
	return "", false
}

func (s *script) issuer(t testing.TB, names []string) error {
	for _, name := range names {
		s.issuers[name] = live.NewIssuer(t)
	}
	return nil
}

// ofIssuer does something with an issuer of the script.
func (s *script) ofIssuer(name string, do func(*live.Issuer) error) error {
	i, ok := s.issuers[name]
	if !ok {
		return fmt.Errorf("the script has no issuer %q", name)
	}
	return do(i)
}

func (s *script) rotate(t testing.TB, args []string) error {
	return s.ofIssuer(args[0], func(i *live.Issuer) error { i.Rotate(t); return nil })
}

func (s *script) silence(_ testing.TB, args []string) error {
	return s.ofIssuer(args[0], func(i *live.Issuer) error { i.Silence(true); return nil })
}

func (s *script) speak(_ testing.TB, args []string) error {
	return s.ofIssuer(args[0], func(i *live.Issuer) error { i.Silence(false); return nil })
}

func (s *script) token(t testing.TB, args []string) error {
	claims := map[string]any{}
	if len(args) > 2 {
		if err := json.Unmarshal([]byte(args[2]), &claims); err != nil {
			return fmt.Errorf("claims %s: %w", args[2], err)
		}
	}
	return s.ofIssuer(args[1], func(i *live.Issuer) error { s.tokens[args[0]] = i.Token(t, claims); return nil })
}

func (s *script) backend(t testing.TB, names []string) error {
	for _, name := range names {
		s.backends[name] = s.m.Backend(t, name)
	}
	return nil
}

func (s *script) tcp(t testing.TB, names []string) error {
	for _, name := range names {
		s.m.TCPBackend(t, name, 9000)
	}
	return nil
}

func (s *script) localhost(t testing.TB, names []string) error {
	for _, name := range names {
		s.ports[name] = s.m.BackendOnLocalhost(t, name)
	}
	return nil
}

func (s *script) identity(t testing.TB, names []string) error {
	if s.trust == nil {
		s.trust, s.identities = live.NewTrust(t), map[string]live.Identity{}
	}
	for _, name := range names {
		s.identities[name] = s.trust.Issue(t, name)
	}
	return nil
}

func (s *script) certificate(t testing.TB, names []string) error {
	if s.authority == nil {
		s.authority = live.NewAuthority(t, "authority of a script")
	}
	for _, name := range names {
		s.certificates[name] = s.authority.Issue(t, name)
	}
	return nil
}

func (s *script) forwarder(t testing.TB, names []string) error {
	for _, name := range names {
		s.forwarders[name] = s.m.Forwarder(t, name, 3128)
	}
	return nil
}

func (s *script) asked(_ testing.TB, args []string) error {
	f, ok := s.forwarders[args[0]]
	if !ok {
		return fmt.Errorf("the script has no forwarder %q", args[0])
	}
	if got := strconv.Itoa(f.Asked()); got != args[1] {
		return fmt.Errorf("%s was asked for %s connections", args[0], got)
	}
	return nil
}

func (s *script) refuse(t testing.TB, args []string) error {
	r, _, err := s.request(append(args, "->"))
	if err == nil {
		rig.Eventually(t, func() error {
			if reply, err := live.Try(r); err == nil {
				return fmt.Errorf("answered %d by %q", reply.Status, reply.Echo.Server)
			}
			return nil
		})
	}
	return err
}

func (s *script) sidecar(t testing.TB, args []string) error { return s.proxy(t, args, live.Node{}) }

func (s *script) gateway(t testing.TB, args []string) error {
	return s.proxy(t, args, live.Node{Router: true})
}

func (s *script) workload(t testing.TB, args []string) error {
	if err := s.identity(t, args[:1]); err != nil {
		return err
	}
	return s.proxy(t, args, live.Node{Identity: s.identities[args[0]].Files})
}

func (s *script) proxy(t testing.TB, args []string, n live.Node) error {
	n.Name = args[0]
	for _, a := range args[1:] {
		label, value, _ := strings.Cut(a, "=")
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		n.Labels[label] = value
	}
	s.m.Proxy(t, n)
	return nil
}

func (s *script) remove(t testing.TB, args []string) error {
	if len(args)%2 != 0 {
		return fmt.Errorf("kinds and names, not %q", args)
	}
	var objects []string
	for pair := range slices.Chunk(args, 2) {
		objects = append(objects, strings.Join(pair, " "))
	}
	s.m.Delete(t, objects...)
	return nil
}

func (s *script) ask(t testing.TB, args []string) error {
	r, want, err := s.request(args)
	if err != nil {
		return err
	}
	return check(live.Send(t, r), want)
}

func (s *script) await(t testing.TB, args []string) error {
	r, want, err := s.request(args)
	if err == nil {
		rig.Eventually(t, func() error { return check(live.Send(t, r), want) })
	}
	return err
}

func (s *script) share(t testing.TB, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	r, want, err := s.request(args[1:])
	if err != nil {
		return err
	}
	return shares(n, live.Tally(t, n, r), want)
}

func (s *script) dial(t testing.TB, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	to, err := s.address(args[1])
	if err != nil || args[2] != "->" {
		return fmt.Errorf("N NAME:PORT -> SHARES, not %q: %v", args, err)
	}
	got := map[string]int{}
	for range n {
		got[live.DialTCP(t, to)]++
	}
	return shares(n, got, args[3:])
}

func (s *script) stick(t testing.TB, args []string) error {
	backends, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	all := map[string]int{}
	for i := range 30 {
		words := slices.Clone(args[1:])
		for j := range words {
			words[j] = strings.ReplaceAll(words[j], "{}", fmt.Sprintf("value-%d", i))
		}
		r, _, err := s.request(append(words, "->"))
		if err != nil {
			return err
		}
		got := live.Tally(t, 3, r)
		if len(got) != 1 {
			return fmt.Errorf("one value met %v", got)
		}
		maps.Copy(all, got)
	}
	if len(all) != backends {
		return fmt.Errorf("30 values met %v, of %d backends", all, backends)
	}
	return nil
}

func (s *script) clusters(t testing.TB, args []string) error {
	if got := outbound(t, s.m.Envoy(args[0])); !slices.Equal(got, args[1:]) {
		return fmt.Errorf("%s holds %q", args[0], got)
	}
	return nil
}

// outbound are an Envoy's clusters of services.
func outbound(t testing.TB, e *live.Envoy) []string {
	t.Helper()
	return slices.DeleteFunc(e.Clusters(t), func(name string) bool { return !strings.HasPrefix(name, "outbound|") })
}

func (s *script) stat(t testing.TB, args []string) error {
	least, err := strconv.ParseInt(args[2], 10, 64)
	if err == nil {
		s.m.Envoy(args[0]).AwaitStat(t, args[1], least)
	}
	return err
}

func (s *script) received(t testing.TB, args []string) error {
	b, err := s.known(args[0])
	if err == nil {
		b.Await(t, func(e live.Echo) bool { return check(live.Reply{Echo: e}, args[1:]) == nil })
	}
	return err
}

func (s *script) count(_ testing.TB, args []string) error {
	want, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	b, err := s.known(args[0])
	if err != nil {
		return err
	}
	all := b.Count()
	got := all - s.counted[args[0]]
	s.counted[args[0]] = all
	if got != want {
		return fmt.Errorf("%s has got %d requests", args[0], got)
	}
	return nil
}

func (s *script) fail(_ testing.TB, args []string) error {
	n, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	b, err := s.known(args[0])
	if err == nil {
		b.FailNext(n)
	}
	return err
}

func (s *script) known(backend string) (*live.Backend, error) {
	if b := s.backends[backend]; b != nil {
		return b, nil
	}
	return nil, fmt.Errorf("the script has no backend %q", backend)
}
