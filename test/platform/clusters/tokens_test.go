package clusters_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	security "istio.io/api/security/v1alpha1"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"fairway/internal/xdstype"
	"fairway/test/plane"
	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

// token has a cluster's API server make a token of shop/web for the control plane.
func token(t *testing.T, c *cluster.Cluster) string {
	t.Helper()
	const body = `{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["istio-ca"]}}`
	o, err := c.Do(t.Context(), http.MethodPost, "/api/v1/namespaces/shop/serviceaccounts/web/token", "application/json", []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	status, _ := o["status"].(map[string]any)
	text, _ := status["token"].(string)
	if text == "" {
		t.Fatalf("no token in %v", o)
	}
	return text
}

// saying returns the context of a call with a token, for a caller that claims a cluster.
func saying(t *testing.T, token, clusterID string) context.Context {
	pairs := []string{"authorization", "Bearer " + token}
	if clusterID != "" {
		pairs = append(pairs, "clusterid", clusterID)
	}
	return metadata.AppendToOutgoingContext(t.Context(), pairs...)
}

// A token is reviewed only by the API server of the cluster that its caller claims: another cluster's token is refused, and no other
// cluster sees it.
func TestTokensOfTheOwnCluster(t *testing.T) {
	t.Parallel()
	east, west := cluster.Start(t), cluster.Start(t)
	for _, c := range []*cluster.Cluster{east, west} {
		c.Apply(t, shop("10.3.0.1")+"---\n{apiVersion: v1, kind: ServiceAccount, metadata: {name: web, namespace: shop}}")
	}
	o := plane.SecureOptions(t)
	own := options(t, east)
	o.Registries, o.ClusterID, o.Kubeconfig = own.Registries, own.ClusterID, own.Kubeconfig
	p := plane.Start(t, o)
	csr := func(token, clusterID string) error {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
		if err != nil {
			t.Fatal(err)
		}
		_, err = security.NewIstioCertificateServiceClient(p.Dial(t, nil)).CreateCertificate(saying(t, token, clusterID),
			&security.IstioCertificateRequest{Csr: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))})
		return err
	}
	ofEast, ofWest := token(t, east), token(t, west)
	refuses := func(when, token, clusterID string) {
		t.Helper()
		if err := csr(token, clusterID); status.Code(err) != codes.Unauthenticated {
			t.Errorf("%s: %v, want a refusal", when, err)
		}
	}
	if err := errors.Join(csr(ofEast, "east"), csr(ofEast, "")); err != nil {
		t.Error(err)
	}
	refuses("a cluster that is not read", ofWest, "west")
	east.Apply(t, remote("west", read(t, west.Kubeconfig(t, nil, "reader", "system:masters"))))
	stands(t, p, "east synced", "west synced istio-system/remote-west")
	if err := csr(ofWest, "west"); err != nil {
		t.Errorf("its own cluster's token: %v", err)
	}
	refuses("west's token as east's", ofWest, "east")
	refuses("west's token as nobody's", ofWest, "")
	refuses("east's token as west's", ofEast, "west")
	refuses("a cluster with a strange name", ofEast, strings.Repeat("x", 4000))

	stream := func(token, clusterID, says string) error {
		x := plane.Proxy{Name: "new-1", IP: "10.3.0.9"}
		node := x.Node()
		node.Metadata.Fields["CLUSTER_ID"] = structpb.NewStringValue(says)
		s, err := discoveryv3.NewAggregatedDiscoveryServiceClient(p.Dial(t, nil)).DeltaAggregatedResources(saying(t, token, clusterID))
		if err != nil {
			return err
		}
		if err := s.Send(&discoveryv3.DeltaDiscoveryRequest{Node: node, TypeUrl: xdstype.ClusterURL}); err != nil {
			return err
		}
		_, err = s.Recv()
		return err
	}
	if err := errors.Join(stream(ofWest, "west", "west"), stream(ofEast, "east", "east")); err != nil {
		t.Error(err)
	}
	if err := stream(ofWest, "west", "east"); status.Code(err) != codes.PermissionDenied {
		t.Errorf("west vouches for a pod of east: %v", err)
	}

	east.Delete(t, "{apiVersion: v1, kind: Secret, metadata: {name: remote-west, namespace: istio-system}}")
	rig.Eventually(t, func() error {
		if err := csr(ofWest, "west"); status.Code(err) != codes.Unauthenticated {
			return fmt.Errorf("a cluster that no Secret names vouches: %w", err)
		}
		return nil
	})
}
