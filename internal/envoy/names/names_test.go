package names_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protowire"

	"fairway/internal/envoy/names"
)

// TestTables: an encoded table is decoded, in order of hosts.
func TestTables(t *testing.T) {
	full := names.Entry{Host: "a.shop.svc.cluster.local", IPs: []string{"10.0.0.1",
		"fd00::1"}, Registry: "Kubernetes", Short: "a", Namespace: "shop"}
	wild, bare := names.Entry{Host: "*.test", IPs: []string{"10.0.0.2"}, Registry: "ServiceEntry"}, names.Entry{Host: "z.test"}
	for _, c := range []struct{ have, want []names.Entry }{
		{nil, nil},
		{[]names.Entry{bare, full, wild}, []names.Entry{wild, full, bare}},
	} {
		got, err := names.Decode(names.Encode(c.have).Body)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%v -want +got:\n%s", err, diff)
		}
	}
	for e, want := range map[*names.Entry]string{
		&full: "a.shop.svc.cluster.local 10.0.0.1,fd00::1 Kubernetes a/shop", &wild: "*.test 10.0.0.2 ServiceEntry",
	} {
		if got := e.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestBytes: the message is Istio's NameTable, field by field. The reader skips fields of newer control planes.
func TestBytes(t *testing.T) {
	text := func(to []byte, num protowire.Number, value string) []byte {
		return protowire.AppendString(protowire.AppendTag(to, num, protowire.BytesType), value)
	}
	number := func(to []byte, num protowire.Number) []byte {
		return protowire.AppendVarint(protowire.AppendTag(to, num, protowire.VarintType), 7)
	}
	info := text(text(text(text(nil, 1, "10.0.0.1"), 2, "Kubernetes"), 3, "a"), 4, "shop")
	table := text(nil, 1, string(text(text(nil, 1, "a.shop"), 2, string(info))))
	entry := names.Entry{Host: "a.shop", IPs: []string{"10.0.0.1"}, Registry: "Kubernetes", Short: "a", Namespace: "shop"}
	if diff := cmp.Diff(table, names.Encode([]names.Entry{entry}).Body); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	newer := text(number(number(info, 1), 9), 5, "new")
	value := number(text(text(text(nil, 1, "a.shop"), 2, string(newer)), 3, "new"), 2)
	own := entry
	own.Host = ""
	for name, c := range map[string]struct {
		body []byte
		want []names.Entry
	}{
		"fields of a newer version": {text(number(text(nil, 1, string(value)), 1), 3, "new"), []names.Entry{entry}},
		"name_info":                 {text(nil, 2, string(newer)), []names.Entry{own}},
	} {
		got, err := names.Decode(c.body)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v -want +got:\n%s", name, err, diff)
		}
	}
	for name, body := range map[string][]byte{
		"a tag without an end":     {0x80},
		"a field without an end":   text(nil, 1, "xxx")[:3],
		"a bad entry":              text(nil, 1, "\x80"),
		"a bad entry of a newer":   text(nil, 2, "\x80"),
		"a bad value of an entry":  text(nil, 1, string(text(nil, 2, "\x80"))),
		"an entry that is too big": text(nil, 1, "\x0a\x7fx"),
	} {
		if got, err := names.Decode(body); err == nil {
			t.Errorf("%s is %v", name, got)
		}
	}
}
