package install

import (
	"context"
	"fmt"
	"io"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
)

// Define creates or updates the CRDs, and waits until the API server serves them.
func Define(ctx context.Context, config *rest.Config, log io.Writer) error {
	c, err := reach(config)
	if err != nil {
		return err
	}
	return c.define(ctx, log)
}

// servedWithin bounds how long an API server may take to serve the CRDs: it needs no machines for that.
const servedWithin = time.Minute

func (c *cluster) define(ctx context.Context, log io.Writer) error {
	all, err := Definitions()
	if err != nil {
		return err
	}
	for _, crd := range all {
		if _, err := c.apply(ctx, crd); err != nil {
			return err
		}
	}
	limited, stop := context.WithTimeout(ctx, servedWithin)
	defer stop()
	for _, crd := range all {
		at, err := c.at(ctx, crd)
		if err != nil {
			return err
		}
		err = wait.PollUntilContextCancel(limited, 50*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			there, err := at.Get(ctx, crd.GetName(), metav1.GetOptions{})
			return err == nil && established(there), nil
		})
		if err != nil {
			return fmt.Errorf("%s is not served: %w; its status.conditions say why", called(crd), err)
		}
	}
	fmt.Fprintf(log, "%d CRDs applied\n", len(all))
	return nil
}

func established(crd *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(crd.Object, "status", "conditions")
	for _, is := range conditions {
		if is, _ := is.(map[string]any); is["type"] == "Established" && is["status"] == "True" {
			return true
		}
	}
	return false
}
