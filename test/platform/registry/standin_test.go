package registry_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"google.golang.org/grpc"
	mcp "istio.io/api/mcp/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"google.golang.org/protobuf/types/known/anypb"

	"fairway/internal/store"
	"fairway/test/platform/registry/mcpserver"
)

// asked is a registry's stand-in: it answers those questions that a source asks first, and has as many services as a test wants.
type asked struct {
	r        registry
	services int // fewer than 0: an answer never ends
}

// serve serves until the test ends.
func (a asked) serve(t *testing.T) (address string) {
	t.Helper()
	switch a.r.kind {
	case "consul", "nomad", "eureka":
		return serveHTTP(t, http.HandlerFunc(a.http))
	case "zookeeper":
		return serveTCP(t, a.zookeeper)
	case "etcd", "mcp":
		if a.services < 0 {
			return endlessMessage(t)
		}
	}
	if a.r.kind == "etcd" {
		return serveGRPC(t, func(g *grpc.Server) {
			etcdserverpb.RegisterKVServer(g, &pages{services: a.services})
			etcdserverpb.RegisterWatchServer(g, &pages{})
		})
	}
	if a.r.options()["mcp"] == true {
		protocol := mcpserver.New(t)
		return mcpserver.Serve(t, func(s grpc.ServerStream) error { return a.mcp(t, protocol, s) })
	}
	return serveGRPC(t, func(g *grpc.Server) {
		discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, &deltas{services: a.services})
	})
}

// options are those of the registry at no address in particular.
func (r registry) options() options { return r.reach("", "127.0.0.1:1") }

// list writes so many parts of a list, a comma between two.
func (a asked) list(w io.Writer, before, part, after string) {
	_, err := io.WriteString(w, before)
	var b strings.Builder
	for i := 0; err == nil && i != a.services; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, part, i)
		if b.Len() > 32<<10 {
			_, err = io.WriteString(w, b.String())
			b.Reset()
		}
	}
	if err == nil {
		_, _ = io.WriteString(w, b.String()+after)
	}
}

func (a asked) http(w http.ResponseWriter, q *http.Request) {
	w.Header().Set("X-Consul-Index", "5")
	w.Header().Set("X-Nomad-Index", "5")
	switch q.URL.Path {
	case "/v1/status/leader":
		_, _ = io.WriteString(w, `"127.0.0.1:8300"`)
	case "/v1/catalog/services":
		if q.URL.Query().Get("index") != "" {
			<-q.Context().Done()
			return
		}
		a.list(w, "{", `"s%d":[]`, "}")
	case "/v1/services":
		a.list(w, `[{"Namespace":"default","Services":[`, `{"ServiceName":"s%d","Tags":[]}`, "]}]")
	case "/v1/event/stream":
		<-q.Context().Done()
	case "/eureka/apps":
		w.Header().Set("Content-Type", "application/json")
		a.list(w, `{"applications":{"versions__delta":"1","apps__hashcode":"","application":[`,
			`{"name":"S%d","instance":[{"instanceId":"a","ipAddr":"10.0.0.1","status":"UP","port":{"$":80,"@enabled":"true"}}]}`, "]}}")
	default:
		_, _ = io.WriteString(w, "[]")
	}
}

// zookeeper speaks ZooKeeper's protocol as far as it takes to list the children of /dubbo. Everything else is not there.
func (a asked) zookeeper(c net.Conn) {
	request := func() []byte {
		var size [4]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return nil
		}
		out := make([]byte, min(binary.BigEndian.Uint32(size[:]), 1<<20))
		if _, err := io.ReadFull(c, out); err != nil {
			return nil
		}
		return out
	}
	framed := func(body []byte) error {
		_, err := c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...))
		return err
	}
	if request() == nil {
		return
	}
	hello := binary.BigEndian.AppendUint32(nil, 0)
	hello = binary.BigEndian.AppendUint32(hello, 10_000)
	hello = binary.BigEndian.AppendUint64(hello, 7)
	hello = binary.BigEndian.AppendUint32(hello, 16)
	if framed(append(hello, make([]byte, 16)...)) != nil {
		return
	}
	for q := request(); len(q) >= 8; q = request() {
		const getChildren, there, absent = 12, 0, -101
		head := func(code int32) []byte {
			out := append([]byte{}, q[:4]...)
			out = binary.BigEndian.AppendUint64(out, 1)
			return binary.BigEndian.AppendUint32(out, uint32(code))
		}
		isDubbo := len(q) >= 18 && string(q[12:18]) == "/dubbo" && binary.BigEndian.Uint32(q[8:]) == 6
		switch {
		case binary.BigEndian.Uint32(q[4:]) != getChildren || !isDubbo:
			code := int32(absent)
			if binary.BigEndian.Uint32(q) > math.MaxInt32 { // pings and other questions of the client's own
				code = there
			}
			if framed(head(code)) != nil {
				return
			}
		case a.services < 0:
			if _, err := c.Write(binary.BigEndian.AppendUint32(nil, 1<<30)); err != nil {
				return
			}
			for _, err := c.Write(head(there)); err == nil; {
				_, err = c.Write(make([]byte, 64<<10))
			}
			return
		default:
			out := binary.BigEndian.AppendUint32(head(there), uint32(a.services))
			for i := range a.services {
				name := fmt.Sprintf("s%d", i)
				out = append(binary.BigEndian.AppendUint32(out, uint32(len(name))), name...)
			}
			if framed(append(out, make([]byte, 68)...)) != nil {
				return
			}
		}
	}
}

// endlessMessage answers whatever is asked by gRPC with one message of 1 GiB and more.
func endlessMessage(t *testing.T) (address string) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		_, err := w.Write([]byte{0, 0x40, 0, 0, 0})
		for block := make([]byte, 64<<10); err == nil; {
			_, err = w.Write(block)
		}
	}))
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return strings.TrimPrefix(s.URL, "http://")
}

func serveGRPC(t *testing.T, register func(*grpc.Server)) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	register(g)
	go g.Serve(l)
	t.Cleanup(g.Stop)
	return l.Addr().String()
}

// pages is an etcd of so many ServiceEntries; fewer than 0: of no end.
type pages struct {
	etcdserverpb.UnimplementedKVServer
	etcdserverpb.UnimplementedWatchServer
	services int
}

func (p *pages) Range(_ context.Context, q *etcdserverpb.RangeRequest) (*etcdserverpb.RangeResponse, error) {
	root := store.Layout{}.Root() + "networking.istio.io/ServiceEntry/default/s"
	first := 0
	if rest, is := strings.CutPrefix(strings.TrimRight(string(q.Key), "\x00"), root); is {
		_, _ = fmt.Sscanf(rest, "%d", &first)
		first -= 1_000_000_000 - 1
	}
	out := &etcdserverpb.RangeResponse{Header: &etcdserverpb.ResponseHeader{ClusterId: 1, Revision: 5}}
	size := 1000
	if q.Limit > 0 {
		size = int(min(q.Limit, 1000))
	}
	for i := first; len(out.Kvs) < size && i != p.services; i++ {
		name := fmt.Sprintf("s%d", 1_000_000_000+i)
		out.Kvs = append(out.Kvs, &mvccpb.KeyValue{Key: []byte(root + name[1:]), ModRevision: 1, CreateRevision: 1, Value: fmt.Appendf(nil,
			`{"apiVersion":"networking.istio.io/v1","kind":"ServiceEntry","metadata":{"name":%q,"namespace":"default"},`+
				`"spec":{"hosts":["%s.suite"],"resolution":"DNS","ports":[{"number":80,"name":"http","protocol":"HTTP"}]}}`, name, name)})
		out.More = i+1 != p.services
	}
	out.Count = int64(p.services)
	return out, nil
}

func (p *pages) Watch(s etcdserverpb.Watch_WatchServer) error {
	for {
		if _, err := s.Recv(); err != nil {
			return err
		}
		head := &etcdserverpb.ResponseHeader{ClusterId: 1, Revision: 5}
		if err := s.Send(&etcdserverpb.WatchResponse{Header: head, Created: true}); err != nil {
			return err
		}
		<-s.Context().Done()
	}
}

// resources are so many ServiceEntries, from a number on.
func resources(first, n int) (out []*mcp.Resource) {
	for i := range n {
		name := fmt.Sprintf("s%d", first+i)
		body, err := anypb.New(&networking.ServiceEntry{
			Hosts: []string{name + ".suite"}, Resolution: networking.ServiceEntry_DNS,
			Ports: []*networking.ServicePort{{Number: 80, Name: "http", Protocol: "HTTP"}},
		})
		if err != nil {
			panic(err) // it can always be packed
		}
		out = append(out, &mcp.Resource{Metadata: &mcp.Metadata{Name: "default/" + name, Version: "1"}, Body: body})
	}
	return out
}

const batch = 10_000

func (a asked) mcp(t *testing.T, protocol mcpserver.Protocol, s grpc.ServerStream) error {
	for {
		r, err := protocol.Receive(s)
		if err != nil {
			return err
		}
		if r.Nonce != "" {
			continue
		}
		answer := mcpserver.Answer{Collection: r.Collection, Nonce: "1", Incremental: true}
		if r.Collection != mcpserver.Entries {
			if err := protocol.Send(s, answer); err != nil {
				return err
			}
			continue
		}
		for i := 0; i < a.services; i += batch {
			answer.Resources = resources(i, batch)
			if err := protocol.Send(s, answer); err != nil {
				return err
			}
		}
	}
}

// deltas is another control plane that speaks xDS.
type deltas struct {
	discoveryv3.UnimplementedAggregatedDiscoveryServiceServer
	services int
}

func (d *deltas) DeltaAggregatedResources(s discoveryv3.AggregatedDiscoveryService_DeltaAggregatedResourcesServer) error {
	send := func(typ string, all []*mcp.Resource) error {
		out := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typ, Nonce: "1"}
		for _, r := range all {
			packed, err := anypb.New(r)
			if err != nil {
				return err
			}
			out.Resources = append(out.Resources, &discoveryv3.Resource{Name: r.Metadata.Name, Version: "1", Resource: packed})
		}
		return s.Send(out)
	}
	for {
		r, err := s.Recv()
		if err != nil {
			return err
		}
		switch {
		case r.ResponseNonce != "":
		case r.TypeUrl != "networking.istio.io/v1/ServiceEntry":
			err = send(r.TypeUrl, nil)
		default:
			for i := 0; i < d.services && err == nil; i += batch {
				err = send(r.TypeUrl, resources(i, batch))
			}
		}
		if err != nil {
			return err
		}
	}
}

// peak runs look, and returns by how much the heap grew meanwhile, as measured at each call of sample. The program has a memory limit, and
// so has this: without one the heap doubles by garbage alone, starting from the size that earlier tests left.
func peak(look func(sample func())) int64 {
	var m runtime.MemStats
	debug.FreeOSMemory()
	runtime.ReadMemStats(&m)
	before, most := int64(m.HeapAlloc), int64(0)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(int64(m.Sys-m.HeapReleased) + 64<<20))
	look(func() {
		runtime.ReadMemStats(&m)
		most = max(most, int64(m.HeapAlloc)-before)
	})
	return most
}

// standingIn returns behaviours with servers that are not the registry's, or that answer falsely.
func standingIn() []behaviour {
	need := []string{"server", "stand-in"}
	// beside reads an address beside a healthy registry, which must go on.
	beside := func(c *bed, at string, words ...string) {
		c.Helper()
		well := registry{name: "Memory", kind: "memory", source: "Memory"}
		other := startMemory(c.T)
		w := open(c.T, c.entry("suite", c.reach("", at)), well.entry("well", other.options(other.address())))
		in := c.in("well", 1)
		if err := other.register(c.T, in); err != nil {
			c.Fatal(err)
		}
		c.has(w, in)
		w.stale(c.T, c.called("suite"), append(words, at)...)
		if phase, _ := w.standing(c.called("suite")); phase != "waiting" {
			c.Errorf("it is %s", phase)
		}
		in.zone = "b"
		if err := other.register(c.T, in); err != nil {
			c.Fatal(err)
		}
		c.has(w, in)
		if err := w.isSynced("Memory/well"); err != nil {
			c.Error(err)
		}
	}
	return []behaviour{
		{"wrong URL", "a web server that is something else: said, with the address; another registry goes on", need, func(c *bed) {
			beside(c, serveHTTP(c.T, http.NotFoundHandler()))
		}},
		{"nobody there", "a port where nobody listens: said, with the address; another registry goes on", need, func(c *bed) {
			beside(c, "127.0.0.1:1")
		}},
		{"garbage", "answers that make no sense: said, with the address; another registry goes on", need, func(c *bed) {
			garbage := strings.Repeat("\x00\xff{[\"\x7f", 4000)
			switch c.kind {
			case "consul", "nomad", "eureka":
				beside(c, serveHTTP(c.T, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					_, _ = io.WriteString(w,
						garbage)
				})))
			default:
				beside(c, serveTCP(c.T, func(conn net.Conn) { _, _ = io.WriteString(conn, garbage) }))
			}
		}},
		{"slow answers", "a server that takes connections and answers nothing: said, with the address; another registry goes on", need,
			func(c *bed) {
				beside(c, serveTCP(c.T, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }))
			}},
		{"endless redirects", "not followed, and said; another registry goes on", append(need, "redirect"), func(c *bed) {
			beside(c, serveHTTP(c.T, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
				http.Redirect(w, q, q.URL.Path+"/x", http.StatusFound)
			})), "not followed")
		}},
		{"endless answers", "an answer of more than `maxAnswerMiB`, which never ends: said; memory stays within 128 MiB", append(need,
			"alone"), func(c *bed) {
			at := asked{c.registry, -1}.serve(c.T)
			limit := 8
			most := peak(func(sample func()) {
				w := open(c.T, c.entry("suite", c.reach("", at).with("maxAnswerMiB", limit)))
				w.eventually(func() error {
					sample()
					_, detail := w.standing(c.called("suite"))
					told := detail + w.told()
					for _, words := range []string{"MiB", "larger than max", "its length is"} {
						if strings.Contains(told, words) {
							return nil
						}
					}
					return fmt.Errorf("nobody says it: %q", told)
				})
			})
			c.Logf("the heap grew by up to %d MiB", most>>20)
			if most > 128<<20 {
				c.Errorf("the heap grew by %d MiB", most>>20)
			}
		}},
		{"a million services", "1,000 of them are read (of Consul's 100,000), and that is said; memory stays within 512 MiB", append(need,
			"alone"), func(c *bed) {
			at := asked{c.registry, 1_000_000}.serve(c.T)
			o := c.reach("", at)
			switch c.kind {
			case "etcd", "mcp":
				o = o.with("maxObjects", 1000)
			case "consul":
			default:
				o = o.with("maxServices", 1000)
			}
			most := peak(func(sample func()) {
				w := open(c.T, c.entry("suite", o))
				w.eventually(func() error {
					sample()
					if told := w.told(); !strings.Contains(told, c.called("suite")) && !strings.Contains(told, at) {
						return fmt.Errorf("nobody says it: %.300s", told)
					}
					return nil
				})
				if n := w.hosts(); n > 100_000 || c.kind != "consul" && n > 1000 {
					c.Errorf("there are %d hosts", n)
				}
			})
			c.Logf("the heap grew by up to %d MiB", most>>20)
			if most > 512<<20 {
				c.Errorf("the heap grew by %d MiB", most>>20)
			}
		}},
	}
}
