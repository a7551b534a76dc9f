package xdstype

import "testing"

// TestRows: each type has a row of its own, and is found by its URL.
func TestRows(t *testing.T) {
	labels := map[string]Type{}
	for typ := range Types {
		if typ.URL() == "" || typ.Label() == "" || typ.String() == "" {
			t.Errorf("type %d has no row, or half of one", typ)
		}
		if got, ok := Of(typ.URL()); !ok || got != typ {
			t.Errorf("%s is found as %v, %v", typ.URL(), got, ok)
		}
		if other, twice := labels[typ.Label()]; twice {
			t.Errorf("%v and %v are both called %s", other, typ, typ.Label())
		}
		labels[typ.Label()] = typ
	}
}

// TestLabels: Istio's short names. A type that is not served is Other, and is sent with all others.
func TestLabels(t *testing.T) {
	for url, want := range map[string]string{
		ClusterURL: "cds", EndpointURL: "eds", ListenerURL: "lds", RouteURL: "rds", VirtualHostURL: "vhds",
		"type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret": "sds",
		"type.googleapis.com/google.protobuf.Struct":                           "google.protobuf.Struct",
		"type.googleapis.com/a.b.C":                                            Other, "": Other, "\xff": Other,
	} {
		if got := Label(url); got != want {
			t.Errorf("%q: %q, want %q", url, got, want)
		}
	}
	if got := Counted(VirtualHostURL); got != "rds" {
		t.Errorf("a refused virtual host counts as %s, not as its route configuration", got)
	}
	for _, url := range []string{"", "\xff", "type.googleapis.com/a.b.C"} {
		if RankOf(url) != OtherRank || Referred(url) || Full(url) {
			t.Errorf("%q is taken for a type of ours", url)
		}
	}
}

// TestShort: the message's name, whatever a client wrote in place of a type.
func TestShort(t *testing.T) {
	for url, want := range map[string]string{ClusterURL: "Cluster", "a/b": "b", "plain": "plain", "": "", "ends.": ""} {
		if got := Short(url); got != want {
			t.Errorf("%q: %q, want %q", url, got, want)
		}
	}
}
