package consul

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"fairway/internal/golden"
	"fairway/internal/mesh"
	"fairway/internal/servers"
	"fairway/internal/source"
	"fairway/internal/source/platform"
)

func answer(t *testing.T, name string) []entry {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	all := entries{most: platform.DefaultBytes}
	if err := readInto(&all)(bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return all.kept
}

// Answers as a Consul gives them, and the rows that are made of them.
func TestGolden(t *testing.T) {
	for _, c := range []struct {
		name, service, protocol string
		o                       Options
	}{
		{"web", "web", "grpc", Options{}},
		{"wan", "web", "", Options{TaggedAddress: "wan", Naming: platform.Naming{Host: "{name}.{datacenter}.mesh"}}},
		{"vendor", "vendor", "", Options{}},
		{"multi", "multi", "", Options{ConsulNamespace: "shop"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			made, ok := c.o.translated(c.service, c.protocol, answer(t, c.service))
			if !ok {
				t.Fatal("it is proxies alone")
			}
			shard, problems := platform.NewTranslator("Consul/test", c.o.Naming, defaultHost).Rows(made)
			got := printed(shard, problems)
			golden.File(t, filepath.Join("testdata", c.name+".golden"), got)
		})
	}
}

func printed(s source.Shard, problems []mesh.Problem) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", s.Key.Part)
	for _, v := range s.Rows.Services {
		fmt.Fprintf(&b, "  %s %s %v exported to %v external %v\n", v.Key, v.Resolution, v.Ports, v.ExportTo, v.External)
	}
	for _, v := range s.Rows.Slices {
		for _, e := range v.Endpoints {
			fmt.Fprintf(&b, "    %s: %s\n", e.ID, e.Endpoint)
		}
	}
	for _, p := range problems {
		fmt.Fprintf(&b, "  problem %s\n", p)
	}
	return b.String()
}

// The rows do not depend on the order of the instances.
func TestOrder(t *testing.T) {
	all := answer(t, "web")
	var o Options
	want, _ := o.translated("web", "", all)
	for range 50 {
		rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		if got, _ := o.translated("web", "", all); !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	}
}

// A name that only proxies have is no service; a name without instances is one.
func TestProxiesAlone(t *testing.T) {
	var proxy entry
	proxy.Service.Kind = "mesh-gateway"
	var o Options
	if _, ok := o.translated("gate", "", []entry{proxy}); ok {
		t.Error("a gateway is a service")
	}
	if _, ok := o.translated("gate", "", nil); !ok {
		t.Error("nobody is a proxy")
	}
}

func TestValidate(t *testing.T) {
	good := Options{Reach: servers.Reach{URLs: []string{"http://127.0.0.1:8500"}}, MaxWatches: 5}
	good.KeepMissing = "0s"
	good.Host = "{name}.{datacenter}.consul"
	if err := good.Validate(); err != nil {
		t.Errorf("refused: %v", err)
	}
	for want, change := range map[string]func(*Options){
		"urls":            func(o *Options) { o.URLs = nil },
		"host":            func(o *Options) { o.Host = "{nam}.consul" },
		"datacenter":      func(o *Options) { o.Datacenter = "a b" },
		"partition":       func(o *Options) { o.Partition = "a&dc=b" },
		"consulNamespace": func(o *Options) { o.ConsulNamespace = "\x00" },
		"allowStale":      func(o *Options) { o.AllowStale, o.Cached = true, true },
		"maxWatches":      func(o *Options) { o.MaxWatches = -1 },
		"keepMissing":     func(o *Options) { o.KeepMissing = "soon" },
	} {
		o := good
		change(&o)
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), want+":") && !strings.Contains(err.Error(), want+",") {
			t.Errorf("%s: error %v", want, err)
		}
	}
}

// FuzzAnswers: no answer makes the decoders or the translation panic, or take more than they may.
func FuzzAnswers(f *testing.F) {
	for _, name := range []string{"web", "vendor", "multi"} {
		text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"a":[],"b":null}`))
	tr := platform.NewTranslator("Consul/test", platform.Naming{}, defaultHost)
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, into := range []decoded{&nameList{most: mostServices}, new(checks), new(protocols), anything{}, new(leader)} {
			_ = readInto(into)(bytes.NewReader(text))
		}
		all := entries{most: 1 << 20}
		if readInto(&all)(bytes.NewReader(text)) == nil {
			var o Options
			if made, ok := o.translated("web", "", all.kept); ok {
				tr.Rows(made)
			}
		}
	})
}
