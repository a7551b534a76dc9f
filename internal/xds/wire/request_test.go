package wire

import (
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"fairway/internal/printable"
	"fairway/internal/xds/xdstest"
	"fairway/internal/xdstype"
)

// field encodes one length-delimited field.
var field = xdstest.Field

// entryOf encodes an entry of initial_resource_versions.
func entryOf(name, version string) string { return field(5, field(1, name)+field(2, version)) }

// decoded decodes raw bytes as the codec does.
func decoded(delta bool, raw string) *Request {
	r := &Request{Delta: delta, MaxNames: 200_000}
	if err := NewCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, r); err != nil {
		panic(err)
	}
	return r
}

func TestHostileRequests(t *testing.T) {
	deep := field(1, "x")
	for range 200 { // a Struct within a Value within an entry within a Struct
		deep = field(1, field(1, "k")+field(2, field(5, deep)))
	}
	for _, c := range []struct {
		name  string
		delta bool
		raw   string
		says  string
	}{
		{"a type that is not UTF-8", true, field(2, "a\xffb"), "type_url is not valid UTF-8"},
		{"a type that is not UTF-8, state of the world", false, field(4, "a\xffb"), "type_url is not valid UTF-8"},
		{"a long type", true, field(2, strings.Repeat("x", 257)), "type_url has 257 bytes, the limit is 256"},
		{"a name that is not UTF-8", true, field(3, "\xc3"), "resource_names_subscribe is not valid UTF-8"},
		{"a name without text", false, field(3, ""), "resource_names is empty"},
		{"a long name", true, field(4, strings.Repeat("x", 4097)), "resource_names_unsubscribe has 4097 bytes"},
		{"a nonce that is not UTF-8", false, field(5, "\xff"), "response_nonce is not valid UTF-8"},
		{"a long nonce", true, field(6, strings.Repeat("x", 257)), "response_nonce has 257 bytes"},
		{"a version that is not UTF-8", false, field(1, "\xff"), "version_info is not valid UTF-8"},
		{"a reported name that is not UTF-8", true, entryOf("a\xff", "1"), "initial_resource_versions is not valid UTF-8"},
		{
			"one behind many that are", true, strings.Repeat(entryOf("a", "1"), 50) + entryOf("a\xff", "1"),
			"initial_resource_versions is not valid UTF-8",
		},
		{"a reported version that is not UTF-8", true, entryOf("a", "\xff"), "initial_resource_versions is not valid UTF-8"},
		{"a reported version that is long", true, entryOf("a", strings.Repeat("1", 1025)), "initial_resource_versions has 1025 bytes"},
		{"an empty entry", true, field(5, ""), "initial_resource_versions is empty"},
		{"a large node", true, field(1, field(1, strings.Repeat("x", 65<<10))), "node without its extensions has 66564 bytes"},
		{"a deep node", true, field(1, field(3, deep)), "node: "},
		{"a node that is not UTF-8", true, field(1, field(1, "\xff")), "node: "},
		{"a node that is none", true, field(1, "\x0a\xff"), "malformed"},
		{"nothing known", true, "\xff\xff", "malformed"},
	} {
		r := decoded(c.delta, c.raw)
		if got := status.Convert(r.Err); got.Code() != codes.InvalidArgument || !strings.Contains(got.Message(), c.says) {
			t.Errorf("%s: %v %q, want InvalidArgument and %q", c.name, got.Code(), got.Message(), c.says)
		}
	}
}

// TestExtensionsAreNotRead sends the node of a stock Envoy against the limit of a node: the list of extensions is nine tenths of
// it.
func TestExtensionsAreNotRead(t *testing.T) {
	node := &corev3.Node{Id: "n", Cluster: "c", Locality: &corev3.Locality{Zone: "z"}}
	for range 5000 {
		node.Extensions = append(node.Extensions, &corev3.Extension{Name: "envoy.filters.http.something", Category: "envoy.filters.http"})
	}
	text, err := proto.Marshal(&discoveryv3.DeltaDiscoveryRequest{Node: node})
	if err != nil {
		t.Fatal(err)
	}
	r := decoded(true, string(text))
	node.Extensions = nil
	if r.Err != nil || !proto.Equal(r.Node, node) {
		t.Errorf("a node of %d bytes is read as %v, %v", len(text), r.Node, r.Err)
	}
}

func TestDetailIsCut(t *testing.T) {
	long := "cluster \x1b[2Jx\n" + strings.Repeat("é", 1<<20)
	r := decoded(true, field(7, field(2, long)))
	if r.Err != nil || len(r.Detail) > 4096 || !strings.HasPrefix(r.Detail, "cluster \uFFFD[2Jx\né") || !utf8.ValidString(r.Detail) {
		t.Errorf("kept are %d bytes: %.40q, %v", len(r.Detail), r.Detail, r.Err)
	}
	// Requests with a short detail, which is kept, and other large strings, which must be freed.
	before := xdstest.LiveHeap()
	var kept []string
	for range 32 {
		kept = append(kept, decoded(true, field(7, field(2, "no"))+field(200, strings.Repeat("x", 1<<20))).Detail)
	}
	if grown := xdstest.LiveHeap() - before; grown > 4<<20 {
		t.Errorf("%d details of two bytes keep %d MB", len(kept), grown>>20)
	}
	runtime.KeepAlive(kept)
}

// TestEmptyEntriesTakeNoMemory decodes the largest request of the smallest entries.
func TestEmptyEntriesTakeNoMemory(t *testing.T) {
	for name, raw := range map[string]string{
		"empty entries":                   strings.Repeat(field(5, ""), 8<<20),
		"entries of names without bytes":  strings.Repeat(entryOf("", ""), 16<<20/6),
		"entries of one byte":             strings.Repeat(field(5, field(1, "x")), 16<<20/5),
		"names of one byte":               strings.Repeat(field(3, "x"), 16<<20/3),
		"a small entry before large ones": field(5, field(1, "x")) + strings.Repeat(entryOf(strings.Repeat("n", 4000), ""), 4000),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := decoded(true, raw)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > uint64(len(raw))+64<<20 {
			t.Errorf("%s: %d MB are taken for a request of %d MB", name, took>>20, len(raw)>>20)
		}
		if len(r.Initial) > maxReported || len(r.Subscribe) > 200_000 {
			t.Errorf("%s: %d and %d names", name, len(r.Initial), len(r.Subscribe))
		}
	}
}

// FuzzRequest decodes raw bytes. The decoder never panics or keeps more than a few times their size; its results are printable and
// bounded; and if the generated code accepts the bytes too, both results are equal.
func FuzzRequest(f *testing.F) {
	f.Add(true, field(2, "a\xffb"))
	f.Add(true, entryOf("c", "1")+field(2, xdstype.ClusterURL)+field(1, field(1, "n")))
	f.Add(false, field(3, "a")+field(4, xdstype.RouteURL)+field(5, "1")+field(6, field(2, "no")))
	f.Add(true, strings.Repeat(field(5, ""), 100))
	f.Add(true, "\x0a\x80")
	f.Fuzz(func(t *testing.T, delta bool, raw string) {
		r := decoded(delta, raw)
		if size := cap(r.Subscribe) + cap(r.Unsubscribe) + 2*cap(r.Initial); size > 64+8*len(raw) {
			t.Fatalf("%d bytes make room for %d strings", len(raw), size)
		}
		if r.Err != nil {
			if code := status.Code(r.Err); code != codes.InvalidArgument && code != codes.ResourceExhausted {
				t.Fatalf("refused with %v", r.Err)
			}
			return
		}
		checkDecoded(t, r)
		if delta {
			sameDelta(t, r, raw)
		} else {
			sameWorld(t, r, raw)
		}
	})
}

func checkDecoded(t testing.TB, r *Request) {
	all := append([]string{r.Type, r.Nonce, r.Detail}, append(r.Subscribe, r.Unsubscribe...)...)
	for _, k := range r.Initial {
		all = append(all, k.Name, k.Version)
	}
	for _, s := range all {
		if len(s) > maxNameBytes || !utf8.ValidString(s) {
			t.Fatalf("accepted: %.60q of %d bytes", s, len(s))
		}
	}
}

// known leaves out fields that the messages do not have, as requests do.
var known = proto.UnmarshalOptions{DiscardUnknown: true}

func sameDelta(t *testing.T, r *Request, raw string) {
	var m discoveryv3.DeltaDiscoveryRequest
	if known.Unmarshal([]byte(raw), &m) != nil {
		return
	}
	sameStrings(t, r, m.TypeUrl, m.ResponseNonce, m.ResourceNamesSubscribe)
	if strings.Join(r.Unsubscribe, "\x00") != strings.Join(m.ResourceNamesUnsubscribe, "\x00") {
		t.Fatalf("unsubscribes %q, not %q", r.Unsubscribe, m.ResourceNamesUnsubscribe)
	}
	last := map[string]string{}
	for _, k := range r.Initial {
		last[k.Name] = k.Version
	}
	if len(last) != len(m.InitialResourceVersions) {
		t.Fatalf("%d resources are held, not %d", len(last), len(m.InitialResourceVersions))
	}
	for name, version := range m.InitialResourceVersions {
		if got, ok := last[name]; !ok || got != version {
			t.Fatalf("%q is held at %q, not %q", name, got, version)
		}
	}
	sameRest(t, r, m.Node, m.ErrorDetail)
}

func sameWorld(t *testing.T, r *Request, raw string) {
	var m discoveryv3.DiscoveryRequest
	if known.Unmarshal([]byte(raw), &m) != nil {
		return
	}
	sameStrings(t, r, m.TypeUrl, m.ResponseNonce, m.ResourceNames)
	sameRest(t, r, m.Node, m.ErrorDetail)
}

func sameStrings(t *testing.T, r *Request, typ, nonce string, names []string) {
	if r.Type != typ || r.Nonce != nonce || strings.Join(r.Subscribe, "\x00") != strings.Join(names, "\x00") {
		t.Fatalf("%q %q %q is read, not %q %q %q", r.Type, r.Nonce, r.Subscribe, typ, nonce, names)
	}
}

func sameRest(t *testing.T, r *Request, node *corev3.Node, detail *statuspb.Status) {
	if want := printable.Lines(detail.GetMessage(), printable.Long); r.Failed != (detail != nil) || r.Detail != want {
		t.Fatalf("refused: %v %q, not %q", r.Failed, r.Detail, want)
	}
	if (r.Node == nil) != (node == nil) || r.Node.GetId() != node.GetId() || !proto.Equal(r.Node.GetMetadata(), node.GetMetadata()) {
		t.Fatalf("the node is read as %v, not %v", r.Node, node)
	}
}
