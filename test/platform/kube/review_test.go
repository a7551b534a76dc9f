package kube_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"fairway/internal/identity"
	"fairway/internal/identity/authn"
	"fairway/internal/identity/review"
	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

// accountToken has the API server make a token of a service account for an audience, bound to an object where one is named.
func accountToken(t testing.TB, c *cluster.Cluster, namespace, account, audience, bound string) string {
	t.Helper()
	body := fmt.Sprintf(`{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": [%q]%s}}`, audience, bound)
	path := fmt.Sprintf("/api/v1/namespaces/%s/serviceaccounts/%s/token", namespace, account)
	o, err := c.Do(t.Context(), http.MethodPost, path, "application/json", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	status, _ := o["status"].(map[string]any)
	token, _ := status["token"].(string)
	if token == "" {
		t.Fatalf("no token in %v", o)
	}
	return token
}

// TestTokensAreReviewed: the API server says which account has a token, for which audience, and until when. The answer is kept for a
// minute, and a token that cannot be genuine costs it nothing.
func TestTokensAreReviewed(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	c.Apply(t, `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: web, namespace: shop}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: other, namespace: shop}
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: shop}
spec: {serviceAccountName: web, containers: [{name: web, image: web}]}
`)
	var asked atomic.Int64
	reach := c.Between(t, func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/tokenreviews") {
			asked.Add(1)
		}
		return false
	})
	trust, err := identity.NewTrust("mesh.example")
	if err != nil {
		t.Fatal(err)
	}
	var later atomic.Int64 // how far the clock has been moved
	m, err := review.New(review.Options{Config: reach, Trust: trust, Log: slog.New(slog.DiscardHandler), Now: func() time.Time {
		return time.Now().Add(time.Duration(later.Load()))
	}})
	if err != nil {
		t.Fatal(err)
	}
	who := func(token string) (authn.Caller, error) {
		return m.Authenticate(t.Context(), authn.Credentials{Token: token})
	}
	web := accountToken(t, c, "shop", "web", "istio-ca", `, "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": "web-1"}`)
	other := accountToken(t, c, "shop", "other", "istio-ca", "")

	for range 3 {
		got, err := who(web)
		if err != nil || got.ID.String() != "spiffe://mesh.example/ns/shop/sa/web" || got.By != "token" {
			t.Fatalf("%+v, %v", got, err)
		}
		if left := time.Until(got.Until); left < 30*time.Minute || left > 2*time.Hour {
			t.Errorf("it ends in %v", left)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("%d questions for one token, want 1", n)
	}
	parts := strings.Split(web, ".")
	for name, forged := range map[string]string{
		"another's signature": parts[0] + "." + parts[1] + "." + strings.Split(other, ".")[2],
		"another's name":      parts[0] + "." + strings.Split(other, ".")[1] + "." + parts[2],
	} {
		if _, err := who(forged); !errors.Is(err, authn.ErrRefused) {
			t.Errorf("%s: %v, want a refusal", name, err)
		}
	}
	before := asked.Load()
	if _, err := who(accountToken(t, c, "shop", "web", "somebody-else", "")); !errors.Is(err, authn.ErrRefused) {
		t.Errorf("a token for another audience: %v", err)
	}
	for _, foreign := range []string{"", "join.token", "a.b.c", "a." + strings.Repeat("x", 1<<20) + ".c"} {
		if _, err := who(foreign); !errors.Is(err, authn.ErrNotMine) {
			t.Errorf("%.20s: %v, want ErrNotMine", foreign, err)
		}
	}
	if n := asked.Load(); n != before {
		t.Errorf("%d questions for tokens that are for somebody else", n-before)
	}

	// The token of a deleted pod is refused, once the kept answer is a minute old. The API server keeps its own answers for ten seconds,
	// too: a minute of the test's clock passes in each of them.
	c.Delete(t, "{apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: shop}}")
	gone := time.Now()
	rig.Eventually(t, func() error {
		later.Store(int64(61*time.Second) * int64(1+time.Since(gone)/time.Second))
		if _, err := who(web); !errors.Is(err, authn.ErrRefused) {
			return fmt.Errorf("the token of a pod that is gone: %w", err)
		}
		return nil
	})

	// While the API server is away, only kept answers count, and no token is refused for good.
	if _, err := who(other); err != nil {
		t.Fatal(err)
	}
	c.StopServer()
	if got, err := who(other); err != nil || got.ID.ServiceAccount != "other" {
		t.Errorf("%+v, %v", got, err)
	}
	later.Add(int64(61 * time.Second))
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	if _, err := m.Authenticate(ctx, authn.Credentials{Token: other}); !errors.Is(err, authn.ErrUnavailable) {
		t.Errorf("without an API server: %v, want ErrUnavailable", err)
	}
	c.StartServer(t)
	rig.Eventually(t, func() error {
		_, err := who(other)
		return err
	})
}

// TestClocksDiffer: whether a token has ended is decided by the API server's clock, not by the control plane's, as long as the two
// are less than a day apart.
func TestClocksDiffer(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	trust, err := identity.NewTrust("cluster.local")
	if err != nil {
		t.Fatal(err)
	}
	token := accountToken(t, c, "default", "default", "istio-ca", `, "expirationSeconds": 600`)
	for _, by := range []time.Duration{-48 * time.Hour, -time.Hour, 0, time.Hour, 23 * time.Hour} {
		now := func() time.Time { return time.Now().Add(by) }
		m, err := review.New(review.Options{Config: c.Admin(), Trust: trust, Now: now, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // asked about, and remembered
			got, err := m.Authenticate(t.Context(), authn.Credentials{Token: token})
			if err != nil || !got.Until.After(now()) {
				t.Errorf("with a clock that is %s off: %+v, %v", by, got, err)
			} else if left := got.Until.Sub(now()); by > 0 && left > 11*time.Minute {
				t.Errorf("with a clock that is %s off it is taken for %s", by, left)
			}
		}
	}
	days := func() time.Time { return time.Now().Add(48 * time.Hour) }
	m, err := review.New(review.Options{Config: c.Admin(), Trust: trust, Now: days, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Authenticate(t.Context(), authn.Credentials{Token: token}); !errors.Is(err, authn.ErrRefused) {
		t.Errorf("two days later: %v", err)
	}
}

// TestReviewsNeedARight: without it, callers are asked to come back, and nothing else of the program is affected.
func TestReviewsNeedARight(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	token := accountToken(t, c, "default", "default", "istio-ca", "")
	trust, err := identity.NewTrust("cluster.local")
	if err != nil {
		t.Fatal(err)
	}
	m, err := review.New(review.Options{
		Config: c.Config(t, nil, "nobody"), Trust: trust, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Authenticate(t.Context(), authn.Credentials{Token: token}); !errors.Is(err, authn.ErrUnavailable) {
		t.Errorf("%v, want ErrUnavailable", err)
	}
	c.Apply(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reviews}
rules: [{apiGroups: [authentication.k8s.io], resources: [tokenreviews], verbs: [create]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reviews}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reviews}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: nobody}]
`)
	rig.Eventually(t, func() error {
		_, err := m.Authenticate(t.Context(), authn.Credentials{Token: token})
		return err
	})
}

// TestPodsGetCertificates: the projected token of a pod gets its service account's certificate from a control plane that is configured with
// the cluster alone; a token for another audience gets none.
func TestPodsGetCertificates(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	secure, o := plane.SecureOptions(t), options(t, c, nil)
	o.SecureAddr, o.Identity = secure.SecureAddr, secure.Identity
	p := plane.Start(t, o)
	pair, err := p.Certify(t, accountToken(t, c, "default", "default", "istio-ca", ""))
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if uris := fmt.Sprint(leaf.URIs); uris != "[spiffe://cluster.local/ns/default/sa/default]" {
		t.Errorf("the certificate is of %s", uris)
	}
	if _, err := p.Certify(t, accountToken(t, c, "default", "default", "vault", "")); status.Code(err) != codes.Unauthenticated {
		t.Errorf("a token for somebody else: %v, want Unauthenticated", err)
	}
}
