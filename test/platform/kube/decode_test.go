package kube_test

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"fairway/test/platform/kube/cluster"
	"fairway/test/rig"
)

// decodes names a kubeconfig to this program when it is to be what reads a cluster's events and does nothing with them.
const decodes = "FAIRWAY_TEST_DECODES"

// startDecoding runs a process that follows the kinds that change most, with the control plane's requests, decodes each event and drops it:
// its cost is the cost of any reader of these events. It returns once all kinds are followed.
func startDecoding(t *testing.T, c *cluster.Cluster) *rig.Process {
	t.Helper()
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := rig.Launch(t, rig.Command{
		Name: "decoding", Path: own, Dir: t.TempDir(), Env: []string{decodes + "=" + c.Kubeconfig(t, nil, "decoding", "system:masters")},
	})
	t.Cleanup(p.Kill)
	rig.Eventually(t, func() error {
		p.Running(t)
		if !strings.Contains(p.Log.String(), "all kinds are followed") {
			return errNone
		}
		return nil
	})
	return p
}

// decode is such a process.
func decode(kubeconfig string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	c.QPS = -1
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return err
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	follow := func(root string, gv schema.GroupVersion, resource, fields string) error {
		own := rest.CopyConfig(c)
		own.APIPath, own.GroupVersion = root, &gv
		own.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
		own.ContentType = "application/vnd.kubernetes.protobuf"
		own.AcceptContentTypes = own.ContentType + ",application/json"
		api, err := rest.RESTClientForConfigAndClient(own, client)
		if err != nil {
			return err
		}
		by := metav1.ListOptions{Watch: true, FieldSelector: fields, AllowWatchBookmarks: true}
		w, err := api.Get().Resource(resource).VersionedParams(&by, metav1.ParameterCodec).Watch(ctx)
		if err != nil {
			return err
		}
		go func() {
			for range w.ResultChan() {
			}
		}()
		return nil
	}
	for _, resource := range []string{"namespaces", "nodes", "services"} {
		if err := follow("/api", corev1.SchemeGroupVersion, resource, ""); err != nil {
			return err
		}
	}
	if err := follow("/api", corev1.SchemeGroupVersion, "pods", "status.phase!=Succeeded,status.phase!=Failed"); err != nil {
		return err
	}
	if err := follow("/apis", discoveryv1.SchemeGroupVersion, "endpointslices", ""); err != nil {
		return err
	}
	fmt.Println("all kinds are followed")
	<-ctx.Done()
	return nil
}
