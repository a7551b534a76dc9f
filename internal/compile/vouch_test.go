package compile_test

import (
	"fmt"
	"strings"
	"testing"

	"fairway/internal/compile/compiletest"
	"fairway/internal/mesh"
	"fairway/internal/source"
)

// selecting is one object of each kind that selects proxies by labels.
const selecting = `apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: infra}
spec: {selector: {istio: ingress}, servers: [{port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}]}
---
apiVersion: networking.istio.io/v1
kind: Sidecar
metadata: {name: own, namespace: shop}
spec: {workloadSelector: {labels: {app: web}}, egress: [{hosts: ["./*"]}]}
---
apiVersion: networking.istio.io/v1
kind: DestinationRule
metadata: {name: web, namespace: shop}
spec: {host: x.example.com, workloadSelector: {matchLabels: {app: web}}}
---
apiVersion: networking.istio.io/v1alpha3
kind: EnvoyFilter
metadata: {name: web, namespace: shop}
spec:
  workloadSelector: {labels: {app: web}}
  configPatches: [{applyTo: BOOTSTRAP, patch: {operation: MERGE, value: {flags_path: /none}}}]
---
apiVersion: security.istio.io/v1
kind: PeerAuthentication
metadata: {name: web, namespace: shop}
spec: {selector: {matchLabels: {app: web}}, mtls: {mode: STRICT}}
`

const (
	byGroup = "apiVersion: networking.istio.io/v1\nkind: WorkloadGroup\nmetadata: {name: g, namespace: %s}\nspec: " +
		"{metadata: {labels: {%s}}, template: {serviceAccount: %s}}\n"
	byEntry = "apiVersion: networking.istio.io/v1\nkind: WorkloadEntry\nmetadata: {name: %[4]s, namespace: %[1]s}\nspec: " +
		"{address: 10.0.0.9, labels: {%[2]s}, serviceAccount: %[3]s}\n"
	inline = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: s, namespace: %s}\n" +
		"spec: {hosts: [x.example.com], resolution: STATIC, ports: [{number: 80, name: p, protocol: HTTP}], endpoints: " +
		"[{address: 10.0.0.9, labels: {%s}, serviceAccount: %s}]}\n"
	byMesh = "kind: MeshConfig\nspec: {defaultConfig: {proxyMetadata: {FAIRWAY_LABEL_SERVICE_ACCOUNTS: \"%s\"}}}\n"
)

// labelled are two proxies that proved who they are and say labels: a gateway of another namespace than the Gateway's, and a sidecar.
func labelled() (router, sidecar mesh.Proxy) {
	router = compiletest.Sidecar("gw", "edges", "10.0.0.1")
	router.ID, router.Type, router.Labels = "edges/gw|router~10.0.0.1~gw.edges~x", mesh.Router, "app=gw,istio=ingress"
	router.Standing, router.ServiceAccount = mesh.Proven, "gw"
	sidecar = compiletest.Sidecar("web", "shop", "10.0.0.2")
	sidecar.ID, sidecar.Labels = "shop/web|"+sidecar.ID, "app=web,version=v1"
	sidecar.Standing, sidecar.ServiceAccount, sidecar.Mutual = mesh.Proven, "web", true
	return router, sidecar
}

// TestLabelsAreVouchedFor: an object that gives a proxy something selects it only by labels that someone else gives to its service account.
func TestLabelsAreVouchedFor(t *testing.T) {
	for name, c := range map[string]struct {
		objects string
		counts  bool
	}{
		"nobody": {"", false},
		"a WorkloadGroup each": {
			fmt.Sprintf(byGroup, "edges", "istio: ingress", "gw") + "---\n" + fmt.Sprintf(byGroup, "shop", "app: web", "web"),
			true,
		},
		"a WorkloadEntry each": {
			fmt.Sprintf(byEntry, "edges", "istio: ingress", "gw", "e") + "---\n" + fmt.Sprintf(byEntry, "shop", "app: web", "web", "e"),
			true,
		},
		"endpoints of ServiceEntries": {
			fmt.Sprintf(inline, "edges", "istio: ingress", "gw") + "---\n" + fmt.Sprintf(inline, "shop", "app: web", "web"),
			true,
		},
		"the mesh's administrator": {fmt.Sprintf(byMesh, "edges/gw, shop/*"), true},
		"for other accounts": {
			fmt.Sprintf(byGroup, "edges", "istio: ingress", "other") + "---\n" + fmt.Sprintf(byGroup, "shop", "app: web", "other"),
			false,
		},
		"for other namespaces": {
			fmt.Sprintf(byGroup, "shop", "istio: ingress", "gw") + "---\n" + fmt.Sprintf(byGroup, "edges", "app: web", "web"),
			false,
		},
		"with other values": {
			fmt.Sprintf(byGroup, "edges", "istio: egress", "gw") + "---\n" + fmt.Sprintf(byGroup, "shop", "app: shop", "web"),
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := compiletest.New(t)
			router, sidecar := labelled()
			w.Apply(selecting)
			if c.objects != "" {
				w.Apply(c.objects)
			}
			w.Connect(router, sidecar)
			w.Settle()
			placed, problems := w.Print("placements", ""), w.ProblemText()
			for _, sign := range []string{"istio=ingress", "{app=web}"} {
				if strings.Contains(placed, sign) != c.counts {
					t.Errorf("%q counts: %v, want %v\n%s", sign, !c.counts, c.counts, placed)
				}
			}
			if strings.Contains(w.Print("attachments", ""), "patch/") != c.counts {
				t.Errorf("the EnvoyFilter's patch: want %v\n%s", c.counts, w.Print("attachments", ""))
			}
			if n := strings.Count(problems, "no object gives them to the account"); n != 3 && !c.counts || n != 0 && c.counts {
				t.Errorf("%d authors are told\n%s", n, problems)
			}
			if inbound := w.Print("inbounds", "shop"); !strings.Contains(inbound, "STRICT") || !strings.Contains(placed, "shop/own") {
				t.Errorf("what restricts the workload selects it by what it says itself:\n%s%s", inbound, placed)
			}
		})
	}
}

// TestOneOfManyVouchers costs proxies nothing: a hundred entries give the same labels, and one more or less is no news.
func TestOneOfManyVouchers(t *testing.T) {
	w := compiletest.New(t)
	_, sidecar := labelled()
	w.Apply(selecting)
	for n := range 100 {
		w.Apply(fmt.Sprintf(byEntry, "shop", "app: web", "web", fmt.Sprintf("e%d", n)))
	}
	w.Connect(sidecar)
	w.Settle()
	w.Delete("WorkloadEntry", "shop", "e7")
	for _, s := range w.Settle().Tables {
		if s.Name == "proxies/vouched" && s.Recomputed > 0 {
			t.Errorf("%d proxies were looked at again", s.Recomputed)
		}
	}
}

// TestPodsVouchForThemselves: a proxy that is a Pod's has the Pod's labels and addresses, whatever it claims, and follows their changes. A
// proxy that only has the Pod's name, or that of no Pod, has none of them.
func TestPodsVouchForThemselves(t *testing.T) {
	pod := func(labels mesh.Labels) source.Batch {
		return source.Batch{Set: source.Rows{Workloads: []*mesh.Workload{{
			Key:    mesh.WorkloadKey{Registry: "Kubernetes/east", Namespace: "shop", Name: "web"},
			Labels: labels, ServiceAccount: "web", Addresses: "10.0.0.7",
		}}}}
	}
	w := compiletest.New(t)
	_, sidecar := labelled()
	sidecar.Cluster, sidecar.Labels, sidecar.IPs = "east", "app=lie", "10.0.0.66"
	thief, nobody := sidecar, sidecar
	thief.ID, thief.ServiceAccount, thief.Labels = "shop/thief|x", "thief", "app=web"
	nobody.ID, nobody.Name, nobody.Labels = "shop/web|y", "web-9", "app=web"
	w.Apply(selecting)
	w.In.Apply(pod("app=web,version=v1"))
	w.Connect(sidecar, thief, nobody)
	w.Settle()
	of := func(p mesh.Proxy) string { return w.Print("proxies/vouched", string(p.ID)) }
	if got := of(sidecar); !strings.Contains(got, "app=web") || strings.Contains(got, "lie") || !strings.Contains(got, "10.0.0.7") ||
		strings.Contains(got, "10.0.0.66") {
		t.Errorf("the Pod's own proxy is %s", got)
	}
	for _, p := range []mesh.Proxy{thief, nobody} {
		if got := w.Print("placements", string(p.ID)); strings.Contains(got, "{app=web}") {
			t.Errorf("%s of account %s is %s", p.Name, p.ServiceAccount, got)
		}
	}
	for _, c := range []struct {
		proxy   mesh.Proxy
		refused bool
	}{{sidecar, false}, {thief, true}, {nobody, false}} {
		if err := w.CheckAccount(c.proxy); (err != nil) != c.refused {
			t.Errorf("%s of account %s: %v", c.proxy.Name, c.proxy.ServiceAccount, err)
		}
	}
	w.In.Apply(pod("app=other"))
	w.Settle()
	if got := of(sidecar); !strings.Contains(got, "app=other") || strings.Contains(got, "app=web") {
		t.Errorf("with another label the proxy is %s", got)
	}
}
