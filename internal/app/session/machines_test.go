package session

import (
	"context"
	"encoding/json"
	"net"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/app/proof"
	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/mesh"
	"fairway/internal/table"
	"fairway/internal/xds/library"
)

// member is a node that names a group.
func member(group string) *corev3.Node {
	return &corev3.Node{Id: webNode, Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
		groupField: structpb.NewStringValue(group), "NETWORK": structpb.NewStringValue("n1"),
	}}}
}

// members lists the machines that are registered.
func (d demand) members() (out []input.Member) {
	d.turn()
	d.graph.Store.Read(func(tx *table.Tx) {
		for _, m := range table.All(tx, d.graph.In.Members.Table) {
			out = append(out, m)
		}
	})
	return out
}

func (d demand) join(ctx context.Context, t *testing.T, node *corev3.Node) library.ProxyID {
	t.Helper()
	id, err := d.Connect(ctx, node, &net.TCPAddr{IP: net.IPv4(10, 9, 9, 9)})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestMachines: a machine is registered while its proxy is connected and for the grace period, even if the proxy's row is removed
// earlier.
func TestMachines(t *testing.T) {
	d := newDemand()
	d.opts.Linger, d.opts.Grace = time.Second, 10*time.Second
	ctx := proving(t, "shop", "vm")
	id := d.join(ctx, t, member("vms"))
	want := input.Member{
		Member:   config.Member{Namespace: "shop", Group: "vms", Account: "vm", Address: "10.0.0.9", Network: "n1"},
		Standing: mesh.Proven,
	}
	if all := d.members(); len(all) != 1 || all[0] != want {
		t.Fatalf("registered: %+v", all)
	}
	d.join(ctx, t, member("others"))
	if all := d.members(); len(all) != 1 || all[0].Group != "others" {
		t.Fatalf("its proxy names another group: %+v", all)
	}
	d.Disconnect(id)
	d.sweep(time.Now().Add(time.Hour))
	if all := d.members(); len(all) != 1 {
		t.Fatalf("one of its streams has ended: %+v", all)
	}
	d.Disconnect(id)
	d.sweep(time.Now().Add(5 * time.Second))
	if all := d.members(); len(all) != 1 || d.owned[owner{identity: "shop/vm"}] != 1 {
		t.Fatalf("within the grace: %+v, and %d proxies count", all, d.owned[owner{identity: "shop/vm"}])
	}
	d.join(ctx, t, member("others"))
	d.sweep(time.Now().Add(time.Hour))
	if all := d.members(); len(all) != 1 {
		t.Fatalf("it came back: %+v", all)
	}
	d.Disconnect(id)
	d.sweep(time.Now().Add(11 * time.Second))
	if all := d.members(); len(all) != 0 || len(d.owned) != 0 {
		t.Fatalf("after the grace: %+v, and %d owners", all, len(d.owned))
	}
}

// TestMachinesStandLess: the grace is not the row's.
func TestMachinesStandLess(t *testing.T) {
	d := newDemand()
	d.opts.Linger, d.opts.Grace = time.Minute, time.Second
	id := d.join(proving(t, "shop", "vm"), t, member("vms"))
	d.Disconnect(id)
	d.sweep(time.Now().Add(2 * time.Second))
	if _, rows := d.turn(); len(d.members()) != 0 || rows != 1 {
		t.Errorf("%+v, %d proxies", d.members(), rows)
	}
}

// TestMachinesComeBack: machines are known from the start on that were registered before, until their agents had the time to come back.
func TestMachinesComeBack(t *testing.T) {
	before := newDemand()
	ctx := proving(t, "shop", "vm")
	first := before.join(ctx, t, member("vms"))
	second := member("vms")
	second.Id = strings.Replace(webNode, "10.0.0.9~web-1", "10.0.0.8~web-2", 1)
	before.join(ctx, t, second)
	before.connect(t, &corev3.Node{Id: "sidecar~10.0.0.7~web-3.shop~x", Metadata: member("vms").Metadata}) // in plaintext
	text, version := before.Machines()
	if version != before.Registered() {
		t.Errorf("version %d, want %d", version, before.Registered())
	}

	d := newDemand()
	d.opts.Grace, d.opts.Share = 10*time.Second, 2
	if err := d.Restore(text); err != nil {
		t.Fatal(err)
	}
	if all := d.members(); len(all) != 2 {
		t.Fatalf("restored: %+v", all)
	}
	third := member("vms")
	third.Id = strings.Replace(webNode, "web-1", "web-4", 1)
	if _, err := d.Connect(ctx, third, &net.TCPAddr{}); err == nil {
		t.Error("restored machines do not count for their account")
	}
	if again, _ := d.Machines(); string(again) != string(text) {
		t.Errorf("kept as\n%s\nwant\n%s", again, text)
	}
	if id := d.join(ctx, t, member("vms")); id != first {
		t.Fatalf("it is called %s, was %s", id, first)
	}
	if staged, rows := d.turn(); staged != 1 || rows != 1 {
		t.Errorf("%d rows were staged, and %d proxies are there", staged, rows)
	}
	d.Expire()
	d.sweep(time.Now().Add(11 * time.Second))
	if all := d.members(); len(all) != 1 || all[0].Address != "10.0.0.9" {
		t.Errorf("one of them came back: %+v", all)
	}
}

// TestDamagedMachines: of a text that a control plane cannot have written nothing is taken.
func TestDamagedMachines(t *testing.T) {
	good := machine{"shop/vm|" + webNode, "shop", "vms", "vm", "10.0.0.9", "", false}
	for name, spoil := range map[string]func(*machine){
		"another account":   func(m *machine) { m.Account = "web" },
		"another namespace": func(m *machine) { m.Namespace = "bank" },
		"no proof":          func(m *machine) { m.Proxy = webNode },
		"no address":        func(m *machine) { m.Address = "somewhere" },
		"no name":           func(m *machine) { m.Group = "a\nb" },
	} {
		bad := good
		spoil(&bad)
		text, err := json.Marshal(kept{format, []machine{good, bad}})
		if err != nil {
			t.Fatal(err)
		}
		d := newDemand()
		if err := d.Restore(text); err == nil || len(d.members()) != 0 {
			t.Errorf("%s: %v, %+v", name, err, d.members())
		}
	}
	for _, text := range []string{"", "{", `{"format": 2, "machines": []}`} {
		if err := newDemand().Restore([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// proving is the context of a stream that proved a service account.
func proving(t *testing.T, namespace, account string) context.Context {
	t.Helper()
	id, err := identity.New("cluster.local", namespace, account)
	if err != nil {
		t.Fatal(err)
	}
	return proof.With(t.Context(), authn.Caller{ID: id, By: "certificate"})
}
