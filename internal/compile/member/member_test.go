package member_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	networking "istio.io/api/networking/v1alpha3"

	"fairway/internal/compile/compiletest"
	"fairway/internal/compile/input"
	"fairway/internal/config"
	"fairway/internal/mesh"
	"fairway/internal/table"
)

const group = `apiVersion: networking.istio.io/v1
kind: WorkloadGroup
metadata: {name: vms, namespace: shop}
spec:
  metadata: {labels: {app: vm}, annotations: {team: shop, istio.io/autoRegistrationGroup: other}}
  template: {serviceAccount: vm, labels: {app: other, tier: back}, ports: {http: 8080}, weight: 3, locality: r1/z1, network: n1}
  probe: {httpGet: {port: 8080}}
`

const service = `apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: vms, namespace: shop}
spec:
  hosts: [vms.example.com]
  location: MESH_INTERNAL
  resolution: STATIC
  ports: [{number: 80, name: http, protocol: HTTP}]
  workloadSelector: {labels: {app: vm}}
`

// machine is a proxy of service account shop/vm that proved it.
func machine(address string) input.Member {
	return input.Member{
		Member:   config.Member{Namespace: "shop", Group: "vms", Account: "vm", Address: address},
		Standing: mesh.Proven,
	}
}

// world is one with the group, and a sidecar that is connected.
func world(t *testing.T) *compiletest.World {
	t.Helper()
	w := compiletest.New(t)
	w.Apply(group)
	w.Apply(service)
	w.Connect(compiletest.Sidecar("client", "shop", "10.0.0.9"))
	w.Settle()
	return w
}

// made lists the WorkloadEntries that the package made.
func made(w *compiletest.World) (out []*config.Object) {
	w.Store.Read(func(tx *table.Tx) {
		for _, o := range table.All(tx, w.In.WorkloadEntries) {
			if o.Made != nil {
				out = append(out, o)
			}
		}
	})
	return out
}

// TestEntry: an entry is the group's template with the machine's address and the group's labels, and clients are sent to it.
func TestEntry(t *testing.T) {
	w := world(t)
	w.In.Members.Set("shop/vm|one", machine("10.4.0.1"))
	w.In.HealthReady.Set(struct{}{}, true)
	w.Settle()
	all := made(w)
	if len(all) != 1 {
		t.Fatalf("entries: %v", all)
	}
	o := all[0]
	spec := config.Spec[*networking.WorkloadEntry](o)
	if o.Name != "vms-10.4.0.1" || spec.Address != "10.4.0.1" || spec.Network != "n1" || spec.ServiceAccount != "vm" || spec.Weight != 3 ||
		spec.Locality != "r1/z1" || spec.Ports["http"] != 8080 || spec.Labels["app"] != "vm" || spec.Labels["tier"] != "back" ||
		o.Labels != "app=vm,tier=back" {
		t.Errorf("%v %v", o.Key, spec)
	}
	if a := o.Annotations; a["team"] != "shop" || a[config.GroupAnnotation] != "vms" || a[config.CheckedAnnotation] != "true" {
		t.Errorf("annotations: %v", a)
	}
	// The group has a probe: its machine takes traffic once its agent has said so.
	if got := w.ClusterText(); strings.Contains(got, "10.4.0.1 port 8080") {
		t.Errorf("sent traffic before its agent spoke:\n%s", got)
	}
	proxy := mesh.Proxy{ID: "shop/vm|one", Namespace: "shop", ServiceAccount: "vm", IPs: "10.4.0.1", Network: "n1", Standing: mesh.Proven}
	w.In.Health.Set(proxy.ID, mesh.HealthReport{Proxy: proxy, Healthy: true})
	w.Settle()
	if got := w.ClusterText(); !strings.Contains(got, "10.4.0.1 port 8080") {
		t.Errorf("not sent traffic:\n%s", got)
	}
	w.In.Members.Delete("shop/vm|one")
	w.Settle()
	if all := made(w); len(all) != 0 || strings.Contains(w.ClusterText(), "10.4.0.1") {
		t.Errorf("left behind: %v\n%s", all, w.ClusterText())
	}
}

// TestWhoRegisters: a machine registers if it proved the group's account and its address is possible. If it does not register, a problem
// says why.
func TestWhoRegisters(t *testing.T) {
	change := func(by func(*input.Member)) input.Member {
		m := machine("10.4.0.1")
		by(&m)
		return m
	}
	for name, c := range map[string]struct {
		is      input.Member
		objects string
		problem string // empty: it is registered
	}{
		"the group's":   {is: machine("10.4.0.1")},
		"IPv6":          {is: machine("fd00::1")},
		"in plaintext":  {change(func(m *input.Member) { m.Standing = mesh.Here }), "", "a proxy in plaintext names the group"},
		"of a stranger": {change(func(m *input.Member) { m.Standing = mesh.Unproven }), "", "a proxy in plaintext names the group"},
		"of another account": {
			change(func(m *input.Member) { m.Account = "web" }), "", "the group's machines are of vm: its machine is not registered",
		},
		"of no group": {change(func(m *input.Member) { m.Group = "none" }), "", "names this group, and there is none"},
		"of another namespace's group": {
			change(func(m *input.Member) { m.Namespace = "bank" }), "", "names this group, and there is none",
		},
		"at a metadata service": {machine("169.254.169.254"), "", "is not an address of a machine"},
		"at its client":         {machine("127.0.0.1"), "", "is not an address of a machine"},
		"everywhere":            {machine("0.0.0.0"), "", "is not an address of a machine"},
		"at many":               {machine("224.0.0.1"), "", "is not an address of a machine"},
		"on this machine":       {is: change(func(m *input.Member) { m.Address, m.Here = "127.0.0.1", true })},
		"that has an entry": {
			machine("10.4.0.1"), "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: mine, namespace: shop}\n" +
				"spec: {address: 10.4.0.1, network: n1}\n", "WorkloadEntry shop/mine has its address",
		},
		"that has an entry of another namespace": {
			is: machine("10.4.0.1"), objects: "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\n" +
				"metadata: {name: mine, namespace: bank}\nspec: {address: 10.4.0.1, network: n1}\n",
		},
		"whose entry's name is taken": {
			machine("10.4.0.1"), "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\n" +
				"metadata: {name: vms-10.4.0.1, namespace: shop}\n" +
				"spec: {address: 10.4.0.2}\n", "has its name, and comes first",
		},
		"by a SPIFFE ID": {
			is:      machine("10.4.0.1"),
			objects: strings.Replace(group, "serviceAccount: vm", "serviceAccount: spiffe://cluster.local/ns/shop/sa/vm", 1),
		},
		"by a SPIFFE ID of another namespace": {
			machine("10.4.0.1"), strings.Replace(group, "serviceAccount: vm", "serviceAccount: spiffe://cluster.local/ns/bank/sa/vm", 1),
			"its machine is not registered",
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := world(t)
			if c.objects != "" {
				w.Apply(c.objects)
			}
			w.In.Members.Set("p", c.is)
			w.Settle()
			problems := w.ProblemText()
			if is := len(made(w)) == 1; is != (c.problem == "") || !strings.Contains(problems, c.problem) {
				t.Errorf("registered: %v\n%s", is, problems)
			}
			if c.problem == "" && strings.Contains(problems, "registered") {
				t.Errorf("told for nothing:\n%s", problems)
			}
			w.In.Members.Delete("p")
			w.Settle()
			if len(made(w)) != 0 {
				t.Errorf("left behind: %v", made(w))
			}
		})
	}
}

// TestOneAddress: proxies at one address share an entry, which goes with the last of them; a proxy of another account has no effect on it.
func TestOneAddress(t *testing.T) {
	w := world(t)
	stranger := machine("10.4.0.1")
	stranger.Account = "a"
	w.In.Members.Set("shop/a|0", stranger)
	w.In.Members.Set("shop/vm|one", machine("10.4.0.1"))
	w.In.Members.Set("shop/vm|two", machine("10.4.0.1"))
	for _, gone := range []mesh.ProxyID{"none", "shop/vm|one", "shop/a|0"} {
		w.In.Members.Delete(gone)
		w.Settle()
		if all := made(w); len(all) != 1 {
			t.Fatalf("without %s: %v", gone, all)
		}
	}
	w.In.Members.Delete("shop/vm|two")
	w.Settle()
	if all := made(w); len(all) != 0 {
		t.Errorf("left behind: %v", all)
	}
}

// TestManyMachines: if one machine of a thousand comes or goes, only its own rows are recomputed.
func TestManyMachines(t *testing.T) {
	w := world(t)
	for n := range 1000 {
		w.In.Members.Set(mesh.ProxyID(fmt.Sprintf("shop/vm|%d", n)), machine(fmt.Sprintf("10.4.%d.%d", n/250, 1+n%250)))
	}
	w.Settle()
	if n := len(made(w)); n != 1000 {
		t.Fatalf("%d entries", n)
	}
	w.In.Members.Set("shop/vm|new", machine("10.5.0.1"))
	turn := w.Settle()
	for _, s := range turn.Tables {
		if slices.Contains([]string{"members/workloadentries", "serving", "health/said"}, s.Name) && s.Recomputed > 1 {
			t.Errorf("%s: %d rows were computed", s.Name, s.Recomputed)
		}
	}
}
