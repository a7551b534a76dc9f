package kube_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/client-go/rest"

	"fairway/internal/config"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

// mostSecrets is how many are watched by the source that watch starts.
const mostSecrets = 2

const infra = `
apiVersion: v1
kind: Namespace
metadata: {name: infra}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
`

// tlsSecret is a Secret with a new certificate.
func tlsSecret(t testing.TB, namespace, name string) string {
	t.Helper()
	certificate, key, err := rig.Pair()
	if err != nil {
		t.Fatal(err)
	}
	text := base64.StdEncoding.EncodeToString
	return fmt.Sprintf(`
apiVersion: v1
kind: Secret
metadata: {name: %s, namespace: %s}
type: kubernetes.io/tls
data: {tls.crt: %s, tls.key: %s}
`, name, namespace, text(certificate), text(key))
}

// asked counts the requests for Secrets, by object.
type asked struct {
	mu  sync.Mutex
	all map[string]int
}

func (a *asked) through(t testing.TB, c *cluster.Cluster) *rest.Config {
	a.all = map[string]int{}
	return c.Between(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.Contains(r.URL.Path, "/secrets") || strings.Contains(r.URL.Path, "/namespaces/infra/configmaps") {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.all[r.URL.Path+" "+r.URL.Query().Get("fieldSelector")]++
		}
		return false
	})
}

func secretOf(namespace, name string) config.Key {
	return config.Key{Kind: config.Secret, Namespace: namespace, Name: name}
}

// knows waits until the state of an object is known, or, if want is false, until the object is no longer kept up to date.
func (w *watcher) knows(t testing.TB, k config.Key, want bool) {
	t.Helper()
	w.until(t, func() error {
		if got, said := w.looked[k.String()]; got != want || !said {
			return fmt.Errorf("that %s has been looked for is %t, was said: %t", k, got, said)
		}
		return nil
	})
}

// differs waits until the row of a key is there and another than before.
func (w *watcher) differs(t testing.TB, key, before string) (now string) {
	t.Helper()
	w.until(t, func() error {
		if now = w.holds[key]; now == "" || now == before {
			return fmt.Errorf("%s is %q still", key, now)
		}
		return nil
	})
	return now
}

// Only Secrets that the control plane wants are requested and read; they are removed when it wants them no more.
func TestWantedSecrets(t *testing.T) {
	c := cluster.Start(t)
	web, other := tlsSecret(t, "infra", "web"), tlsSecret(t, "infra", "other")
	c.Apply(t, infra+"---"+other+"---"+tlsSecret(t, "shop", "web"))
	var a asked
	w := watch(t, a.through(t, c))
	at := secretOf("infra", "web")
	w.from.Want([]config.Key{at}, nil)
	w.knows(t, at, true) // there is none
	w.holding(t, at.String(), "")
	c.Apply(t, web)
	first := w.differs(t, at.String(), "")
	c.Apply(t, tlsSecret(t, "infra", "web"))
	second := w.differs(t, at.String(), first)

	c.Patch(t, "/api/v1/namespaces/infra/secrets/web", `{"data":{"tls.key":"bm9uc2Vuc2U="}}`)
	w.problem(t, "Secret infra/web", "key cannot be used")
	w.holding(t, at.String(), second)
	c.Apply(t, tlsSecret(t, "infra", "web"))
	w.problem(t, "Secret infra/web", "")
	w.differs(t, at.String(), second)
	c.Delete(t, web)
	w.holding(t, at.String(), "")
	c.Apply(t, web)
	w.differs(t, at.String(), "")

	w.from.Want(nil, []config.Key{at})
	w.holding(t, at.String(), "")
	w.knows(t, at, false)
	w.from.Want([]config.Key{at}, nil)
	w.differs(t, at.String(), "")
	w.knows(t, at, true)
	a.mu.Lock()
	defer a.mu.Unlock()
	const only = "/api/v1/namespaces/infra/secrets metadata.name=web"
	if len(a.all) != 1 || a.all[only] > 4 { // a list and a watch, twice
		t.Errorf("the API server was asked for %v", a.all)
	}
}

// authorities returns a ConfigMap with a new certificate, and with a field that is not read.
func authorities(t testing.TB, namespace, name string) string {
	t.Helper()
	certificate, _, err := rig.Pair()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s, namespace: %s}\ndata: {ca.crt: %q, other: x}\n",
		name, namespace, certificate)
}

// Only ConfigMaps that the control plane wants are requested and read, beside a Secret of the same name.
func TestWantedConfigMaps(t *testing.T) {
	c := cluster.Start(t)
	clients := authorities(t, "infra", "clients")
	c.Apply(t, infra+"---\n"+authorities(t, "infra", "other")+"---\n"+tlsSecret(t, "infra", "clients"))
	var a asked
	w := watch(t, a.through(t, c))
	at := config.Key{Kind: config.ConfigMap, Namespace: "infra", Name: "clients"}
	w.from.Want([]config.Key{at}, nil)
	w.knows(t, at, true) // there is none
	w.holding(t, at.String(), "")
	c.Apply(t, clients)
	first := w.differs(t, at.String(), "")
	c.Apply(t, authorities(t, "infra", "clients"))
	second := w.differs(t, at.String(), first)
	c.Patch(t, "/api/v1/namespaces/infra/configmaps/clients", `{"data":{"ca.crt":"nonsense"}}`)
	w.problem(t, "ConfigMap infra/clients", "cannot be read")
	w.holding(t, at.String(), second)
	c.Apply(t, authorities(t, "infra", "clients"))
	w.problem(t, "ConfigMap infra/clients", "")
	w.differs(t, at.String(), second)
	beside := secretOf("infra", "clients")
	w.from.Want([]config.Key{beside}, nil)
	w.differs(t, beside.String(), "")
	c.Delete(t, clients)
	w.holding(t, at.String(), "")
	w.from.Want(nil, []config.Key{at, beside})
	w.holding(t, beside.String(), "")
	w.knows(t, at, false)
	w.knows(t, beside, false)
	a.mu.Lock()
	defer a.mu.Unlock()
	const one, two = "/api/v1/namespaces/infra/configmaps metadata.name=clients", "/api/v1/namespaces/infra/secrets metadata.name=clients"
	if len(a.all) != 2 || a.all[one] == 0 || a.all[one] > 2 || a.all[two] == 0 || a.all[two] > 2 { // a list and a watch each
		t.Errorf("the API server was asked for %v", a.all)
	}
}

// The number of watches is limited; a Secret beyond the limit is a problem that names it, and is read once there is room.
func TestTooManySecrets(t *testing.T) {
	c := cluster.Start(t)
	c.Apply(t, infra)
	w := watch(t, c.Admin())
	var keys []config.Key
	for i := range mostSecrets + 1 {
		k := secretOf("infra", fmt.Sprintf("s-%d", i))
		c.Apply(t, tlsSecret(t, k.Namespace, k.Name))
		w.from.Want([]config.Key{k}, nil)
		w.knows(t, k, true)
		keys = append(keys, k)
	}
	last := keys[mostSecrets]
	const place = "watch of Secret infra/s-2"
	w.problem(t, place, "the most that are")
	w.holding(t, last.String(), "")
	w.from.Want(nil, keys[:1])
	w.differs(t, last.String(), "")
	w.problem(t, place, "")
	w.holding(t, keys[0].String(), "")
}

// Rights that are taken away leave the Secret that was read, and are a problem that names it; the next Secret is not
// waited for for ever; rights that are given back are noticed.
func TestRightsToSecrets(t *testing.T) {
	c := cluster.Start(t)
	c.Define(t)
	c.Apply(t, infra+"---"+rights+"---"+tlsSecret(t, "infra", "web"))
	w := watch(t, c.Config(t, nil, "reader"))
	at, next := secretOf("infra", "web"), secretOf("infra", "next")
	inMap := config.Key{Kind: config.ConfigMap, Namespace: "infra", Name: "next"}
	w.from.Want([]config.Key{at}, nil)
	first := w.differs(t, at.String(), "")
	const role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/reader"
	c.Patch(t, role, `{"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["list","watch"]}]}`)
	c.StopServer()
	c.StartServer(t)
	w.problem(t, "watch of Secret infra/web", "forbidden")
	w.holding(t, at.String(), first)
	w.from.Want([]config.Key{next}, nil)
	w.knows(t, next, true)
	w.problem(t, "watch of Secret infra/next", "forbidden")
	w.from.Want(nil, []config.Key{next})
	w.from.Want([]config.Key{inMap}, nil)
	w.knows(t, inMap, true)
	w.problem(t, "watch of ConfigMap infra/next", "forbidden")
	c.Apply(t, tlsSecret(t, "infra", "web")+"---"+rights)
	w.differs(t, at.String(), first)
	w.problem(t, "watch of Secret infra/web", "")
}
